// Who else has this card open. While the page is on screen it says so every 10 seconds, and writes the others' names.

const INTERVAL = 10_000;
const line = document.querySelector("[data-looking]");

async function say() {
  if (document.hidden || document.body.hasAttribute("data-signed-out")) return;
  try {
    const headers = { ...JSON.parse(document.body.getAttribute("hx-headers")), Accept: "application/json" };
    const answer = await fetch(line.dataset.looking, { method: "POST", headers, redirect: "error", credentials: "same-origin" });
    const { words } = answer.ok ? await answer.json() : { words: "" };
    if (line.textContent !== words) line.textContent = words;
  } catch {
    line.textContent = ""; // live.js says so when the server cannot be reached
  }
}

if (line) {
  say();
  setInterval(say, INTERVAL);
  document.addEventListener("visibilitychange", say);
}

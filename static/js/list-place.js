// The list beside a card: only wide screens are sent it, it keeps its place from one card to the next, and the card's row
// is in sight. A cookie says whether this browser is wide; a window that grew fetches its list afterwards.

const PLACE = "list-place";
const wide = matchMedia("(min-width: 1280px)");
const list = document.querySelector(".split-list");

function note() {
  const secure = location.protocol === "https:" ? "; Secure" : "";
  document.cookie = `handrail-wide=${wide.matches ? 1 : 0}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;
}

async function bring() {
  if (!list || !wide.matches || list.childElementCount) return;
  const response = await fetch(location.href, { headers: { "X-Handrail-Refresh": "1" }, redirect: "error" });
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  list.replaceChildren(...(page.querySelector(".split-list")?.children ?? []));
  window.htmx?.process(list);
}

function settle() {
  if (!list || list.offsetParent === null) return;
  list.scrollTop = Number(sessionStorage.getItem(PLACE)) || 0;
  const row = list.querySelector('.row[aria-current="true"]');
  if (!row) return;
  const [inner, outer] = [row.getBoundingClientRect(), list.getBoundingClientRect()];
  if (inner.top < outer.top) list.scrollTop -= outer.top - inner.top;
  else if (inner.bottom > outer.bottom) list.scrollTop += inner.bottom - outer.bottom;
}

async function adapt() {
  note();
  await bring().catch(() => {}); // without it the card is there all the same
  settle();
}

wide.addEventListener("change", adapt);
if (list) addEventListener("pagehide", () => list.offsetParent && sessionStorage.setItem(PLACE, String(list.scrollTop)));
await adapt();

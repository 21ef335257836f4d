// The list beside a card: only wide screens are sent it, it keeps its place from one card to the next, and the card's row
// is in sight. A cookie says whether this browser is wide; a window that grew fetches its list afterwards.

const PLACE = "list-place";
const wide = matchMedia("(min-width: 1100px)");
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
  const rows = list?.querySelector(".list-rows");
  if (!rows || rows.offsetParent === null) return;
  rows.scrollTop = Number(sessionStorage.getItem(PLACE)) || 0;
  const row = rows.querySelector('.row[aria-current="true"]');
  if (!row) return;
  const [inner, outer] = [row.getBoundingClientRect(), rows.getBoundingClientRect()];
  if (inner.top < outer.top) rows.scrollTop -= outer.top - inner.top;
  else if (inner.bottom > outer.bottom) rows.scrollTop += inner.bottom - outer.bottom;
}

function keep() {
  const rows = list.querySelector(".list-rows");
  if (rows?.offsetParent) sessionStorage.setItem(PLACE, String(rows.scrollTop));
}

async function adapt() {
  note();
  await bring().catch(() => {}); // without it the card is there all the same
  settle();
}

wide.addEventListener("change", adapt);
if (list) addEventListener("pagehide", keep);
await adapt();

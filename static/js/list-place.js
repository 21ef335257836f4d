// The list beside a card: only wide screens are sent it, it keeps its place from one card to the next, and the card's row
// is in sight. A cookie says whether this browser is wide; a window that grew fetches its list afterwards.

const PLACE = "rows-in-sight";
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

// The rows in sight, each with its distance from the list's top: the next card may be sent with other rows above them,
// and the uppermost may be decided by then.
function rowsInSight() {
  const top = list.getBoundingClientRect().top;
  const places = [...list.querySelectorAll(".row[id]")].map((row) => [row.id, row.getBoundingClientRect().top - top]);
  return places.filter(([, distance]) => distance >= 0 && distance < list.clientHeight);
}

function putBack() {
  const top = list.getBoundingClientRect().top;
  for (const [id, distance] of JSON.parse(sessionStorage.getItem(PLACE) || "[]")) {
    const row = list.querySelector(`#${CSS.escape(id)}`);
    if (!row) continue;
    list.scrollTop += row.getBoundingClientRect().top - top - distance;
    return;
  }
}

function settle() {
  if (!list || list.offsetParent === null) return;
  putBack();
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
if (list) addEventListener("pagehide", () => list.offsetParent && sessionStorage.setItem(PLACE, JSON.stringify(rowsInSight())));
await adapt();

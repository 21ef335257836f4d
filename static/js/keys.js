// Single keys on a desktop. They rest in fields and terminals, and when switched off (<body data-keys="off">).

const PAGES = { d: "/", w: "/waiting/", t: "/tasks/", s: "/workspaces/", a: "/agents/", h: "/actions/" };
const ITEMS = "a.row-title, .row.group summary, .card-title a";
let goUntil = 0;

export function resting(event) {
  if (document.body.dataset.keys === "off" || event.defaultPrevented || event.isComposing) return true;
  if (event.ctrlKey || event.metaKey || event.altKey) return true;
  return event.target.closest("input, textarea, select, [contenteditable], .xterm, [data-terminal], dialog[open]") !== null;
}

// Beside a card the keys open the next row of its list at once; on a row for alike calls they stop, and Enter opens it.
function open(step) {
  const rows = [...document.querySelectorAll(".split-list .row:not([data-gone])")];
  const focused = rows.findIndex((row) => row.matches(".group") && row.contains(document.activeElement));
  const at = focused < 0 ? rows.findIndex((row) => row.getAttribute("aria-current") === "true") : focused;
  if (!rows.length || rows[0].offsetParent === null) return false;
  const row = rows[at < 0 ? 0 : at + step];
  if (!row || row === rows[at]) return true;
  const link = row.querySelector(":scope > a.row-title");
  if (link) link.click();
  else row.querySelector("summary").focus();
  row.scrollIntoView({ block: "nearest" });
  return true;
}

function move(step) {
  if (open(step)) return;
  const items = [...document.querySelectorAll(ITEMS)].filter((item) => item.offsetParent !== null);
  if (!items.length) return;
  const at = items.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : items.length - 1) : Math.max(0, Math.min(items.length - 1, at + step));
  items[next].focus();
  items[next].closest(".row, .card")?.scrollIntoView({ block: "nearest" });
}

function press(key) {
  // In the card or row that has the focus, else in the only card of the page: a row beside it must have the focus.
  const near = document.activeElement?.closest("[data-card], .row")?.querySelector(`[data-key="${key}"]`);
  const all = [...document.querySelectorAll(`[data-key="${key}"]`)].filter(
    (element) => element.offsetParent !== null && !element.closest(".row"),
  );
  const target = near ?? (all.length === 1 ? all[0] : null);
  target?.click();
  return target !== null;
}

document.addEventListener("keydown", (event) => {
  if (resting(event)) return;
  const { key } = event;
  const going = performance.now() < goUntil;
  goUntil = 0;
  if (going && Object.hasOwn(PAGES, key)) location.assign(PAGES[key]);
  else if (key === "g") goUntil = performance.now() + 1500;
  else if (key === "j" || key === "k") move(key === "j" ? 1 : -1);
  else if (key === "/") document.querySelector("input[type=search]")?.focus();
  else if (key === "?") document.getElementById("keys-help")?.showModal();
  else if (!"adecnqt".includes(key) || !press(key)) return;
  event.preventDefault();
});

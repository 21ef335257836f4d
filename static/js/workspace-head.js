// The head of a workspace's pages: the current tab is brought into view in its row, and a menu closes by Escape or by a
// tap outside of it. Without this file the row is pushed along by hand, and a menu closes by its own button.

const row = document.getElementById("tabs");
const current = row?.querySelector('[aria-current="page"]');

if (current) row.scrollLeft = current.offsetLeft - row.offsetLeft - (row.clientWidth - current.offsetWidth) / 2;

function close(except) {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(except)) menu.open = false;
}

document.addEventListener("click", (event) => close(event.target));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const menu = document.activeElement?.closest("details.menu[open]");
  close(null);
  if (menu) menu.querySelector("summary").focus();
});

// The list beside a card keeps its place from one card to the next, and the card's row is in sight.

const PLACE = "list-place";
const list = document.querySelector(".split-list");

if (list && list.offsetParent !== null) {
  list.scrollTop = Number(sessionStorage.getItem(PLACE)) || 0;
  const row = list.querySelector('.row[aria-current="true"]');
  if (row) {
    const [inner, outer] = [row.getBoundingClientRect(), list.getBoundingClientRect()];
    if (inner.top < outer.top) list.scrollTop -= outer.top - inner.top;
    else if (inner.bottom > outer.bottom) list.scrollTop += inner.bottom - outer.bottom;
  }
  addEventListener("pagehide", () => sessionStorage.setItem(PLACE, String(list.scrollTop)));
}

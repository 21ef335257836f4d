// Swipes on the list of approvals, for a finger: to the right approves what the list offers to approve, and opens any
// other; to the left opens the deny step. Each row has a button or link that does the same.
//
//   [data-swipes]   the list
//   [data-deny]     on a row: the address of its deny step

import { gettext } from "./texts.js";

const EDGE = 24; // pixels at the sides, where the browser's own gesture begins
const STARTS = 12;
const ACTS = 104;
const list = document.querySelector("[data-swipes]");
const still = matchMedia("(prefers-reduced-motion: reduce)");
let drag = null;

function deedOf(row, to) {
  if (to < 0) return { words: gettext("Deny…"), tone: "red", run: () => location.assign(row.dataset.deny) };
  const approve = row.querySelector('button[data-key="a"]');
  if (!approve) return { words: gettext("Open"), tone: "accent", run: () => row.querySelector("a.row-title").click() };
  // What has just come or changed takes no swipe either, as it takes no tap (card.js).
  const words = approve.getAttribute("aria-disabled") === "true" ? gettext("Not yet") : gettext("Approve");
  return { words, tone: "accent", run: () => approve.click() };
}

function label(row) {
  const found = row.querySelector(".swipe-label");
  if (found) return found;
  const made = document.createElement("span");
  made.className = "swipe-label";
  made.setAttribute("aria-hidden", "true");
  row.append(made);
  return made;
}

function show() {
  const { row, dx } = drag;
  const deed = deedOf(row, dx);
  const tag = label(row);
  Object.assign(tag, { textContent: deed.words });
  tag.dataset.tone = deed.tone;
  tag.dataset.side = dx < 0 ? "end" : "start";
  tag.toggleAttribute("data-acts", Math.abs(dx) >= ACTS);
  row.style.setProperty("--swiped", `${dx}px`);
  row.setAttribute("data-swiping", "");
}

function back(row) {
  row.removeAttribute("data-swiping");
  row.style.removeProperty("--swiped");
  const tag = row.querySelector(".swipe-label");
  if (!tag) return;
  if (still.matches) tag.remove();
  else setTimeout(() => row.hasAttribute("data-swiping") || tag.remove(), 200);
}

function begin(event) {
  const row = event.target.closest(".row[data-deny]");
  const atEdge = event.clientX < EDGE || event.clientX > innerWidth - EDGE;
  if (event.pointerType !== "touch" || !event.isPrimary || !row || atEdge || row.hasAttribute("data-gone")) return;
  drag = { row, id: event.pointerId, x: event.clientX, y: event.clientY, dx: 0, moving: false };
}

function move(event) {
  if (event.pointerId !== drag?.id) return;
  const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
  if (!drag.moving) {
    if (Math.abs(dy) > STARTS) drag = null; // a scroll
    if (!drag || Math.abs(dx) < STARTS) return;
    drag.moving = true;
    drag.row.setPointerCapture(event.pointerId);
  }
  drag.dx = dx;
  show();
}

function end(event) {
  if (event.pointerId !== drag?.id) return;
  const { row, dx, moving } = drag;
  drag = null;
  if (!moving) return;
  const deed = deedOf(row, dx);
  back(row);
  const isMeant = event.type === "pointerup" && Math.abs(dx) >= ACTS;
  const isThere = row.isConnected && !row.hasAttribute("data-gone") && !document.body.hasAttribute("data-offline");
  if (isMeant && isThere) deed.run();
}

// The tap that ends a swipe must not open the card besides.
function swallow(event) {
  if (event.isTrusted && performance.now() < swallow.until) {
    event.preventDefault();
    event.stopPropagation();
  }
}
swallow.until = 0;

if (list) {
  list.addEventListener("pointerdown", begin);
  list.addEventListener("pointermove", move);
  for (const name of ["pointerup", "pointercancel"]) {
    list.addEventListener(name, (event) => {
      if (drag?.moving && event.pointerId === drag.id) swallow.until = performance.now() + 300;
      end(event);
    });
  }
  list.addEventListener("click", swallow, true);
}

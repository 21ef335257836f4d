// The Changes tab: n and p go to the next and the previous file, ] and [ to the next and the previous change in one; on a
// phone two buttons do the same ([data-go]).

import { resting } from "./keys.js";

const [FILE, CHANGE] = ["[data-file]", ".hunk, [data-file]"];
const STEPS = { n: [FILE, 1], p: [FILE, -1], "]": [CHANGE, 1], "[": [CHANGE, -1] };
let here = null; // where the last key or tap went, as long as it is in sight

// The last stop at or above the top of the window, where a reader who scrolled is.
function atTop(stops) {
  return stops.findLastIndex((stop) => stop.getBoundingClientRect().top < 80);
}

function isInSight(stop) {
  const { top, bottom } = stop.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}

function go(selector, step) {
  const stops = [...document.querySelectorAll(selector)].filter((stop) => stop.offsetParent !== null);
  if (!stops.length) return;
  const known = here?.isConnected && isInSight(here) ? stops.indexOf(here.closest(selector) ?? here) : -1;
  const at = known >= 0 ? known : atTop(stops);
  const next = stops[Math.max(0, Math.min(stops.length - 1, at + step))];
  next.tabIndex = -1;
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "start" });
  here = next;
}

// On many keyboards a bracket takes AltGr, which counts as two keys that are held.
function rests(event) {
  if (!event.getModifierState("AltGraph")) return resting(event);
  return resting({ target: event.target, defaultPrevented: event.defaultPrevented, isComposing: event.isComposing });
}

document.addEventListener("keydown", (event) => {
  if (!Object.hasOwn(STEPS, event.key) || rests(event)) return;
  go(...STEPS[event.key]);
  event.preventDefault();
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-go]");
  if (button) go(button.dataset.go === "file" ? FILE : CHANGE, 1);
});

// Beside the diffs there is room for the list of files; the page itself knows that only from the second visit on.
const files = document.querySelector(".diff-files");
if (files && matchMedia("(min-width: 1280px)").matches) files.open = true;

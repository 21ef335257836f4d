// Keys of the Changes tab: ] and [ go to the next and the previous file, n and p to the next and the previous change.

import { resting } from "./keys.js";

const STEPS = { "]": ["[data-file]", 1], "[": ["[data-file]", -1], n: [".hunk, [data-file]", 1], p: [".hunk, [data-file]", -1] };
let here = null; // where the last key went, as long as it is on the page

// The last stop at or above the top of the window, where a reader who scrolled is.
function atTop(stops) {
  return stops.findLastIndex((stop) => stop.getBoundingClientRect().top < 80);
}

function go(selector, step) {
  const stops = [...document.querySelectorAll(selector)].filter((stop) => stop.offsetParent !== null);
  if (!stops.length) return;
  const known = document.activeElement === here ? stops.indexOf(here.closest(selector) ?? here) : -1;
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

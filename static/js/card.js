// Deciding: a second step in place of the bar, no taps on what has just moved, and long texts read to their end.
// Without this file the links lead to pages of their own and the buttons are plain forms.
//
//   [data-steps]              the bar; holds [data-step-main] and <template data-step-for="approve">
//   a[data-step="approve"]    opens that template in place of [data-step-main]
//   [data-step-back]          goes back
//   [data-decide]             accepts taps only 400 ms after it came or after the card changed; one that only opens a
//                             step decides nothing and takes them at once
//   [data-needs-reading]      off until the end of each [data-must-read] of its [data-card] was seen; a tap leads there
//   [data-reading-words]      in it, what is still folded: "Open the 89 hidden lines to approve", as the fold's
//                             data-opens says
//   .code-end                 opens the fold beside it and leads to its end

import { gettext } from "./texts.js";

const PAUSE = 400;

function rest(scope) {
  const buttons = scope.querySelectorAll("[data-decide]:not([data-step])");
  for (const button of buttons) {
    button.dataset.resting = String(Number(button.dataset.resting || 0) + 1);
    button.setAttribute("aria-disabled", "true");
  }
  setTimeout(() => {
    for (const button of buttons) {
      button.dataset.resting = String(Number(button.dataset.resting) - 1);
      if (button.dataset.resting !== "0") continue;
      delete button.dataset.resting;
      if (!button.hasAttribute("data-unread") && !document.body.hasAttribute("data-offline")) button.removeAttribute("aria-disabled");
    }
  }, PAUSE);
}

function openStep(link) {
  const bar = link.closest("[data-steps]");
  const template = bar?.querySelector(`template[data-step-for="${link.dataset.step}"]`);
  if (!template) return false;
  const before = bar.querySelector("[data-open-step]"); // one step leads to another, with what was typed
  const typed = before?.querySelector("textarea")?.value;
  before?.remove();
  const step = document.createElement("div");
  step.className = "bar-step";
  step.id = `${bar.id}-step`; // refresh.js finds it by its id and keeps it
  step.dataset.openStep = link.dataset.step;
  step.append(template.content.cloneNode(true));
  const field = step.querySelector("textarea");
  if (typed && field) field.value = typed;
  bar.querySelector("[data-step-main]").hidden = true;
  bar.append(step);
  rest(step);
  (step.querySelector("[autofocus], textarea, input:not([type=hidden])") ?? step.querySelector("[data-decide]") ?? step.querySelector("button"))?.focus({ preventScroll: true });
  return true;
}

function closeStep(bar) {
  const step = bar.querySelector("[data-open-step]");
  if (!step) return;
  const name = step.dataset.openStep;
  step.remove();
  bar.querySelector("[data-step-main]").hidden = false;
  rest(bar);
  (bar.querySelector(`[data-step-main] [data-step="${name}"]`) ?? bar.querySelector("[data-step-main] [data-step]"))?.focus({ preventScroll: true });
}

function cardOf(element) {
  return element.closest?.("[data-card]") ?? document;
}

function unreadOf(card) {
  return card.querySelector("[data-must-read]:not([data-was-read])");
}

function judgeReading(card) {
  const fold = unreadOf(card);
  const unread = fold !== null;
  for (const button of card.querySelectorAll("[data-needs-reading]")) {
    button.toggleAttribute("data-unread", unread);
    if (unread) button.setAttribute("aria-disabled", "true");
    else if (!button.dataset.resting) button.removeAttribute("aria-disabled");
  }
  const words = card.querySelector("[data-reading-words]");
  if (words) words.hidden = !unread;
  if (words && fold) words.textContent = fold.dataset.opens;
}

function lead(fold, toEnd) {
  fold.open = true;
  const target = toEnd ? fold.querySelector(":scope > .fold-end") : fold.querySelector("summary");
  target.scrollIntoView({ block: toEnd ? "center" : "start" });
  if (!toEnd) target.focus({ preventScroll: true });
}

// Says why a tap did nothing, for as long as somebody needs to read it.
function hint(button) {
  const place = button.closest(".bar-step, [data-step-main], form") ?? button.parentElement;
  if (place.querySelector("[data-hint]")) return;
  const words = document.createElement("p");
  words.className = "bar-say";
  words.dataset.hint = "";
  words.setAttribute("role", "status");
  words.textContent = gettext("This has just appeared or changed. Tap again.");
  place.prepend(words);
  setTimeout(() => words.remove(), 4000);
}

const ends = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    const fold = target.closest("[data-must-read]");
    if (!isIntersecting || !fold?.open) continue;
    fold.setAttribute("data-was-read", "");
    ends.unobserve(target);
    judgeReading(cardOf(fold));
  }
});

function prepareFolds(root) {
  for (const fold of root.querySelectorAll("details[data-must-read]:not([data-was-read])")) {
    if (!fold.hasAttribute("data-prepared")) {
      fold.setAttribute("data-prepared", "");
      fold.open = false;
    }
    let end = fold.querySelector(":scope > .fold-end");
    if (!end) {
      end = document.createElement("span");
      end.className = "fold-end";
      fold.append(end);
    }
    ends.observe(end);
    judgeReading(cardOf(fold));
  }
}

// Scrolling on over a fold opens it, so that what is read to its end was all seen.
document.addEventListener("scroll", () => {
  for (const fold of document.querySelectorAll("details[data-must-read][data-prepared]:not([open], [data-was-read])")) {
    const { top, bottom } = fold.getBoundingClientRect();
    if (bottom > 0 && top < innerHeight) fold.open = true;
  }
}, { capture: true, passive: true });

document.addEventListener("click", (event) => {
  const off = event.target.closest('[aria-disabled="true"]');
  if (off) {
    event.preventDefault();
    event.stopPropagation();
    const fold = off.hasAttribute("data-unread") && unreadOf(cardOf(off));
    if (fold) lead(fold, false);
    else if (off.dataset.resting) hint(off);
    return;
  }
  const unread = event.target.closest("summary")?.closest("details[data-must-read][open]:not([data-was-read])");
  if (unread) event.preventDefault(); // it opened while the finger came down
  const end = event.target.closest("a.code-end")?.parentElement.querySelector("details[data-must-read]");
  if (end) {
    event.preventDefault();
    lead(end, true);
  }
  const link = event.target.closest("a[data-step]");
  if (link && !event.metaKey && !event.ctrlKey && !event.shiftKey && openStep(link)) event.preventDefault();
  const back = event.target.closest("[data-step-back]");
  if (back) {
    event.preventDefault();
    closeStep(back.closest("[data-steps]"));
  }
  const reason = event.target.closest("[data-reason]");
  if (reason) {
    const field = reason.closest("form").querySelector("textarea");
    field.value = reason.dataset.reason;
    field.focus();
  }
}, true);

document.addEventListener("submit", (event) => {
  // Enter in a field is a tap as well; and one answer is enough.
  const { submitter, target } = event;
  const rests = submitter?.getAttribute("aria-disabled") === "true" && !target.hasAttribute("data-passkey-answered");
  if (rests || target.hasAttribute("data-sent")) {
    event.preventDefault();
    event.stopPropagation();
  } else if (submitter?.hasAttribute("data-decide")) {
    target.setAttribute("data-sent", "");
  }
}, true);

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const bar = document.querySelector("[data-steps]:has([data-open-step])");
  if (bar) closeStep(bar);
});

function changed(event) {
  const scope = event.target instanceof Element ? event.target : document;
  prepareFolds(scope);
  const card = cardOf(scope);
  judgeReading(card);
  rest(card);
}

document.addEventListener("changed", changed);
document.addEventListener("htmx:afterSwap", changed);
document.body.addEventListener("reach", ({ detail }) => {
  for (const button of document.querySelectorAll("[data-decide]")) if (!detail.reached) button.setAttribute("aria-disabled", "true");
  if (!detail.reached) return;
  for (const link of document.querySelectorAll("[data-decide][data-step]:not([data-unread])")) link.removeAttribute("aria-disabled");
  rest(document);
});
// A page that comes back from the browser's cache was not sent again.
addEventListener("pageshow", () => document.querySelectorAll("form[data-sent]").forEach((form) => form.removeAttribute("data-sent")));
prepareFolds(document);
rest(document);

// On `live`, the page reads itself again and takes over what changed, by id:
//   [data-live]       the element is morphed (idiomorph): focus, selection, scroll positions, typed text, open details
//                     and dialogs stay; an open second step (card.js) stays unless data-version changed
//   [data-live-list]  rows (children with ids) are morphed in place; new ones are added at the end, or wait behind
//                     "2 new" when they would push others down; rows that went stay, faded, until then
// Each morphed element dispatches `changed`, which bubbles.

import { fill, gettext } from "./texts.js";

const WATCHED = "[data-live][id], [data-live-list][id]";
const seen = new Map(); // id: what the server last sent, without what differs each time
let busy = false;
let again = false;

function essence(element) {
  const copy = element.cloneNode(true);
  for (const time of copy.querySelectorAll("time")) time.replaceChildren();
  // As text, because what is inside a <template> is not found from outside.
  // pattern: the page is Handrail's own
  return copy.outerHTML.replace(/<input[^>]*name="csrfmiddlewaretoken"[^>]*>/g, "");
}

function remember(root) {
  for (const element of root.querySelectorAll(WATCHED)) {
    seen.set(element.id, essence(element));
    if (element.matches("[data-live-list]")) for (const row of element.children) if (row.id) seen.set(row.id, essence(row));
  }
}

// The server's version gets what the viewer opened, so that the morph leaves it open.
function keepOpen(old, fresh) {
  const opened = new Map(); // summary: whether any details with it is open
  for (const details of old.querySelectorAll("details")) {
    const words = details.querySelector("summary")?.textContent;
    opened.set(words, details.open || opened.get(words) === true);
  }
  for (const details of fresh.querySelectorAll("details")) {
    const words = details.querySelector("summary")?.textContent;
    if (opened.has(words)) details.open = opened.get(words);
  }
  for (const dialog of old.querySelectorAll("dialog[open][id]")) {
    const same = fresh.querySelector(`dialog[id="${CSS.escape(dialog.id)}"]`);
    if (same) same.open = true;
  }
}

// A fold that says the same as before stays as read as it was (card.js).
function keepRead(old, fresh) {
  const words = (fold) => fold.textContent.trim();
  const folds = [...fresh.querySelectorAll("details[data-must-read]")];
  for (const fold of old.querySelectorAll("details[data-must-read][data-prepared]")) {
    const same = folds.find((candidate) => words(candidate) === words(fold));
    if (!same) continue;
    folds.splice(folds.indexOf(same), 1);
    same.open = fold.open;
    for (const name of ["data-prepared", "data-was-read"]) if (fold.hasAttribute(name)) same.setAttribute(name, "");
    const end = fold.querySelector(":scope > .fold-end");
    if (end) same.append(end.cloneNode());
  }
}

function chosen(select) {
  const initial = select?.querySelector("option[selected]") ?? select?.options[0];
  return select?.selectedOptions[0] !== initial;
}

// True for what only the browser knows: what was typed, ticked or chosen, and what card.js and time.js note.
function isViewers(name, element) {
  if (name === "value") return element.defaultValue !== undefined && element.value !== element.defaultValue;
  if (name === "checked") return element.checked !== element.defaultChecked;
  if (name === "selected") return chosen(element.closest("select"));
  return name === "data-resting" || name === "data-exact" || name === "data-ends";
}

function morph(old, fresh) {
  const copy = document.importNode(fresh, true);
  keepOpen(old, copy);
  keepRead(old, copy);
  const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
  // The second step of a decision stays open, unless what is decided has changed.
  const step = old.dataset.version === copy.dataset.version ? old.querySelector("[data-open-step]") : null;
  const hidden = step?.closest("[data-steps]").querySelector("[data-step-main]");
  window.Idiomorph.morph(old, copy, {
    callbacks: {
      beforeAttributeUpdated: (name, element) => !(isViewers(name, element) || (name === "hidden" && element === hidden)),
      beforeNodeRemoved: (node) => node !== step,
    },
  });
  const element = document.getElementById(fresh.id);
  window.htmx?.process(element);
  if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus({ preventScroll: true });
  element.dispatchEvent(new CustomEvent("changed", { bubbles: true }));
}

function replace(old, fresh) {
  const now = essence(fresh);
  if (seen.get(fresh.id) === now) return;
  seen.set(fresh.id, now);
  morph(old, fresh);
}

function merge(list, fresh) {
  const rows = [...list.children].filter((row) => row.id);
  const known = new Set(rows.map((row) => row.id));
  const arriving = [...fresh.children].filter((row) => row.id);
  const news = arriving.filter((row) => !known.has(row.id));
  const atEnd = arriving.slice(arriving.length - news.length).every((row) => !known.has(row.id));
  // Nothing to push down: the whole list, with its words for "nothing here".
  if (!rows.length || !arriving.length) return whole(list, fresh);
  for (const row of rows) {
    const now = arriving.find((candidate) => candidate.id === row.id);
    row.toggleAttribute("data-gone", !now);
    if (now) replace(row, now);
  }
  if (!news.length) return offer(list, fresh, 0);
  if (!atEnd) return offer(list, fresh, news.length);
  for (const row of news) {
    seen.set(row.id, essence(row));
    const element = document.importNode(row, true);
    list.append(element);
    window.htmx?.process(element);
    element.dispatchEvent(new CustomEvent("changed", { bubbles: true }));
  }
}

function whole(list, fresh) {
  const now = essence(fresh);
  if (seen.get(list.id) === now) return;
  seen.set(list.id, now);
  for (const row of fresh.children) if (row.id) seen.set(row.id, essence(row));
  document.getElementById(`${list.id}-new`)?.remove();
  morph(list, fresh);
}

function offer(list, fresh, count) {
  const id = `${list.id}-new`;
  let button = document.getElementById(id);
  if (!count) return button?.remove();
  if (!button) {
    button = document.createElement("button");
    Object.assign(button, { id, type: "button", className: "new-items" });
    button.setAttribute("aria-live", "polite");
    list.before(button);
  }
  button.textContent = fill(gettext("%(count)s new"), { count });
  button.onclick = () => whole(list, fresh);
}

function count(page) {
  const fresh = page.querySelector("[data-waiting-count]");
  if (!fresh) return;
  for (const element of document.querySelectorAll("[data-waiting-count]")) element.textContent = fresh.textContent;
}

async function refresh() {
  if (busy) {
    again = true;
    return;
  }
  busy = true;
  try {
    const response = await fetch(location.href, { headers: { "X-Handrail-Refresh": document.hidden ? "hidden" : "1" }, redirect: "error" });
    if (!response.ok) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    count(page);
    for (const element of document.querySelectorAll(WATCHED)) {
      const fresh = page.getElementById(element.id);
      // What was typed and refused stays as it is, with its error, until it is sent again.
      if (!fresh || element.querySelector('[aria-invalid="true"]')) continue;
      if (element.matches("[data-live-list]")) merge(element, fresh);
      else replace(element, fresh);
    }
  } catch {
    // live.js says so when the server cannot be reached, and `live` comes again
  } finally {
    busy = false;
    if (again) {
      again = false;
      setTimeout(refresh, 250);
    }
  }
}

// A page that a refused POST shows again: the form's address answers no GET (dashboard/pages.py, show_at).
if (document.body.dataset.address) history.replaceState(history.state, "", document.body.dataset.address);
remember(document);
document.body.addEventListener("live", refresh);

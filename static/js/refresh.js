// On `live`, htmx asks for the page again (base.html, #refresh) and swaps in what changed, by id, with its idiomorph
// extension. Here is what those cannot know:
//   [data-live]           focus, selection, scroll positions, typed text, open details and dialogs stay; an open second
//                         step (card.js) stays unless data-version changed
//   [data-live-list]      rows (children with ids) keep their places; new ones are added at the end, or wait behind
//                         "2 new" when they would push others down; rows that went stay, faded, until then
//   [data-waiting-count]  takes over the number only
// Each morphed element dispatches `changed`, which bubbles.

import { fill, gettext } from "./texts.js";

const WATCHED = "[data-live][id], [data-live-list][id], [data-waiting-count][id]";
const place = document.getElementById("refresh");
const seen = new Map(); // id: what the server last sent, without what differs each time
let focused = ""; // the id of what has the focus in the element that is morphed next
let step = null; // its open second step, which stays,
let stale = []; // ids of what is to be fetched again after the morph
let main = null; // and the first step that is hidden meanwhile

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

// Which fold it is: its id, or the words of its summary in the innermost element with an id, such as a row of a list.
function nameOf(details) {
  return details.id || `${details.parentElement?.closest("[id]")?.id} ${details.querySelector("summary")?.textContent}`;
}

// The server's version gets what the viewer opened, so that the morph leaves it open.
function keepOpen(old, fresh) {
  const opened = new Map(); // name: whether any details with it is open
  for (const details of old.querySelectorAll("details")) {
    const name = nameOf(details);
    opened.set(name, details.open || opened.get(name) === true);
  }
  for (const details of fresh.querySelectorAll("details")) {
    const name = nameOf(details);
    if (opened.has(name)) details.open = opened.get(name);
  }
  for (const dialog of old.querySelectorAll("dialog[open][id]")) {
    const same = fresh.querySelector(`dialog[id="${CSS.escape(dialog.id)}"]`);
    if (same) same.open = true;
  }
}

// What htmx has fetched into a [data-lazy] element stays there, and is fetched again if it is about something else now.
function keepLoaded(old, fresh) {
  stale = [];
  for (const lazy of old.querySelectorAll("[data-lazy][data-loaded]")) {
    const same = fresh.querySelector(`[id="${CSS.escape(lazy.id)}"]`);
    if (!same || same.hasAttribute("data-loaded")) continue;
    same.replaceChildren(...lazy.cloneNode(true).childNodes);
    if (same.dataset.lazy !== lazy.dataset.lazy) stale.push(lazy.id);
  }
}

// A fold that says the same as before stays as read as it was (card.js).
function keepRead(old, fresh) {
  const words = (fold) => `${fold.parentElement?.closest("[id]")?.id} ${fold.textContent.trim()}`;
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
  return name === "data-resting" || ["data-exact", "data-ends", "data-loaded"].includes(name);
}

// Note what the morph must leave, and put into the server's version what the viewer opened.
function prepare(old, fresh) {
  keepOpen(old, fresh);
  keepLoaded(old, fresh);
  keepRead(old, fresh);
  focused = old.contains(document.activeElement) ? document.activeElement.id : "";
  // The second step of a decision stays open, unless what is decided has changed.
  step = old.dataset.version === fresh.dataset.version ? old.querySelector("[data-open-step]") : null;
  main = step?.closest("[data-steps]").querySelector("[data-step-main]") ?? null;
}

Object.assign(window.Idiomorph.defaults.callbacks, {
  beforeAttributeUpdated: (name, element) => !(isViewers(name, element) || (name === "hidden" && element === main)),
  beforeNodeRemoved: (node) => node !== step,
});

function differs(fresh) {
  const now = essence(fresh);
  if (seen.get(fresh.id) === now) return false;
  seen.set(fresh.id, now);
  return true;
}

// Return whether there is anything to morph; `fresh` becomes what the list is to be.
function merge(list, fresh) {
  const rows = [...list.children].filter((row) => row.id);
  const arriving = new Map([...fresh.children].filter((row) => row.id).map((row) => [row.id, row]));
  // Nothing to push down: the whole list, with its words for "nothing here".
  if (!rows.length || !arriving.size) return whole(list, fresh);
  const known = new Set(rows.map((row) => row.id));
  const news = [...arriving.values()].filter((row) => !known.has(row.id));
  const tail = [...arriving.values()].slice(1 + [...arriving.keys()].findLastIndex((id) => known.has(id)));
  offer(list, fresh.cloneNode(true), news.length - tail.length);
  for (const row of rows) row.toggleAttribute("data-gone", !arriving.has(row.id));
  const changed = [...arriving.values()].filter((row) => (known.has(row.id) || tail.includes(row)) && differs(row));
  const next = new Map(changed.map((row) => [row.id, row]));
  const stay = [...list.children].map((child) => next.get(child.id) ?? child.cloneNode(true));
  fresh.replaceChildren(...stay, ...tail);
  return changed.length > 0 || tail.length > 0;
}

function whole(list, fresh) {
  for (const row of fresh.children) if (row.id) seen.set(row.id, essence(row));
  document.getElementById(`${list.id}-new`)?.remove();
  return differs(fresh);
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
  button.onclick = () => {
    whole(list, fresh);
    prepare(list, fresh);
    window.htmx.swap(list, fresh.outerHTML, { swapStyle: "morph" }, { contextElement: list });
  };
}

place?.addEventListener("htmx:configRequest", ({ detail }) => {
  detail.path = location.pathname + location.search;
  delete detail.headers["HX-Request"]; // the whole page is wanted
  detail.headers["X-Handrail-Refresh"] = document.hidden ? "hidden" : "1";
  const watched = [...document.querySelectorAll(WATCHED)];
  place.setAttribute("hx-select-oob", watched.map(({ id }) => `#${id}:morph`).join(","));
});

// A page that now leads elsewhere is not this page; live.js says so when the server cannot be reached.
place?.addEventListener("htmx:beforeSwap", ({ detail }) => {
  if (new URL(detail.xhr.responseURL).pathname !== location.pathname) detail.shouldSwap = false;
});

// The place itself shows nothing.
place?.addEventListener("htmx:afterSwap", (event) => event.stopPropagation());

document.addEventListener("htmx:oobBeforeSwap", ({ detail }) => {
  const { target, fragment } = detail;
  if (!target.matches(WATCHED)) return;
  const fresh = fragment.firstElementChild;
  if (target.matches("[data-waiting-count]")) {
    target.textContent = fresh.textContent;
    detail.shouldSwap = false;
  } else if (target.querySelector('[aria-invalid="true"]')) {
    // What was typed and refused stays as it is, with its error, until it is sent again.
    detail.shouldSwap = false;
  } else {
    detail.shouldSwap = target.matches("[data-live-list]") ? merge(target, fresh) : differs(fresh);
    if (detail.shouldSwap) prepare(target, fresh);
  }
});

document.addEventListener("htmx:oobAfterSwap", ({ detail }) => {
  if (!detail.shouldSwap || !detail.target.matches(WATCHED)) return;
  if (focused && document.activeElement?.id !== focused) document.getElementById(focused)?.focus({ preventScroll: true });
  for (const id of stale.splice(0)) window.htmx.trigger(document.getElementById(id), "reload");
  detail.target.dispatchEvent(new CustomEvent("changed", { bubbles: true }));
});

document.addEventListener("htmx:afterSwap", ({ target }) => {
  if (target.matches("[data-lazy]")) target.dataset.loaded = "";
});

// A page that a refused POST shows again: the form's address answers no GET (dashboard/web/pages.py, show_at).
if (document.body.dataset.address) history.replaceState(history.state, "", document.body.dataset.address);
remember(document);

// On `live`, the page reads itself again and takes over what changed, by id:
//   [data-live]       the element is replaced; not while somebody types in it, unless its data-version changed
//   [data-live-list]  rows (children with ids) change in place; new ones are added at the end, or wait behind
//                     "2 new" when they would push others down; rows that went stay, faded, until then
// Each replaced element dispatches `changed`, which bubbles.

const WATCHED = "[data-live][id], [data-live-list][id]";
const seen = new Map(); // id: what the server last sent, without what differs each time
let busy = false;
let again = false;

function essence(element) {
  const copy = element.cloneNode(true);
  for (const time of copy.querySelectorAll("time")) time.replaceChildren();
  // As text, because what is inside a <template> is not found from outside.
  return copy.outerHTML.replace(/<input[^>]*name="csrfmiddlewaretoken"[^>]*>/g, "");
}

function remember(root) {
  for (const element of root.querySelectorAll(WATCHED)) {
    seen.set(element.id, essence(element));
    if (element.matches("[data-live-list]")) for (const row of element.children) if (row.id) seen.set(row.id, essence(row));
  }
}

function typingIn(element) {
  return element.contains(document.activeElement) && document.activeElement.matches("input, textarea, select");
}

function take(old, fresh) {
  const open = [...old.querySelectorAll("details[open] > summary")].map((summary) => summary.textContent);
  const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
  const element = document.importNode(fresh, true);
  for (const summary of element.querySelectorAll("details > summary")) if (open.includes(summary.textContent)) summary.parentElement.open = true;
  old.replaceWith(element);
  window.htmx?.process(element);
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  element.dispatchEvent(new CustomEvent("changed", { bubbles: true }));
}

function replace(old, fresh) {
  const now = essence(fresh);
  if (seen.get(fresh.id) === now) return;
  if (typingIn(old) && old.dataset.version === fresh.dataset.version) return;
  seen.set(fresh.id, now);
  take(old, fresh);
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
    if (now) replace(row, now);
    else row.setAttribute("data-gone", "");
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
  take(list, fresh);
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
  button.textContent = `${count} new`;
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
    const response = await fetch(location.href, { headers: { "X-Handrail-Refresh": "1" }, redirect: "error" });
    if (!response.ok) return;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    count(page);
    for (const element of document.querySelectorAll(WATCHED)) {
      const fresh = page.getElementById(element.id);
      if (!fresh) continue;
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

remember(document);
document.body.addEventListener("live", refresh);

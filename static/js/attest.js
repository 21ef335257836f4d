// The attested card: what the page rendered of a call is read back out of it and sent along with an approval
// (docs/attested-card.md). Without this file, or at an address without crypto.subtle, an approval says nothing of it.
//
//   [data-attest=digest]     holds what is shown of the call; data-without names arguments that are shown in another way
//   [data-values=form]       in it, shows values: "text" one string as it is, "plain" one that is JSON if it is quoted,
//                            "list" several of these, "json" a JSON text, "cells" a table of plain ones
//   [data-bytes]             stands for these bytes (hex), data-times times, whatever its text is (visible_text.py)

const PROFILE = 1;
const ABSENT = "–"; // in a cell: the row has no such value
// pattern: what we wrote ourselves as JSON, in which each quotation mark has its end
const TOKENS = /("(?:[^"\\]|\\.)*")(\s*:)?|\{\s*\}|\[\s*\]|-?\d[\d.eE+-]*|true|false|null/g;
// pattern: as above
const ITEMS = / ?("(?:[^"\\]|\\.)*"|[^,]+)/g;
const read = new WeakSet(); // elements whose end was in view, with all before it
const begun = new WeakSet(); // elements whose beginning was in view
let shown = null; // of the card in the page: {call, values, count, without, parts}

function decode(node) {
  if (node.nodeType === Node.TEXT_NODE) return node.data;
  if (node.nodeType !== Node.ELEMENT_NODE) return "";
  const hex = node.dataset.bytes;
  if (hex === undefined) return [...node.childNodes].map(decode).join("");
  const bytes = Uint8Array.from(hex.match(/../g) ?? [], (byte) => parseInt(byte, 16));
  return new TextDecoder().decode(bytes).repeat(Number(node.dataset.times ?? 1));
}

function plain(text) {
  return text.startsWith('"') ? JSON.parse(text) : text;
}

function ofJson(text) {
  const found = [];
  for (const [whole, string, isKey] of text.matchAll(TOKENS)) {
    if (!isKey) found.push(string ? JSON.parse(string) : whole.replace(/\s/g, ""));
  }
  return found;
}

function valuesOf(element) {
  try {
    return readBack(element);
  } catch {
    return [decode(element)]; // what is not as we wrote it is stated as it is, and does not fit the call
  }
}

function readBack(element) {
  const form = element.dataset.values;
  if (form === "cells") {
    return [...element.querySelectorAll("td")].map(decode).filter((text) => text !== ABSENT).map(plain);
  }
  const exact = [...element.querySelectorAll(".exact")];
  const text = exact.length ? exact.map(decode).join("") : decode(element);
  if (form === "text") return [text];
  if (form === "plain") return [plain(text)];
  if (form === "list") return [...text.matchAll(ITEMS)].map(([, item]) => plain(item));
  return ofJson(text);
}

async function sha256(text) {
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function look() {
  const region = document.querySelector("[data-attest]");
  if (!region || !globalThis.crypto?.subtle) {
    shown = null;
    return;
  }
  const parts = [...region.querySelectorAll("[data-values]")].map((element) => ({ element, values: valuesOf(element) }));
  const values = parts.flatMap((part) => part.values);
  const each = (await Promise.all(values.map(sha256))).sort();
  const without = region.dataset.without.split(" ").filter(Boolean);
  shown = { call: region.dataset.attest, values: await sha256(each.join("\n")), count: values.length, without, parts };
  changes.observe(region, { subtree: true, childList: true, characterData: true, attributeFilter: ["data-bytes"] });
  follow();
}

// Whatever changes what is shown later, such as a translation by the browser, is read again.
const changes = new MutationObserver(look);

// An element counts as read once its beginning and then its end were in view, with nothing in it folded.
function follow() {
  for (const { element } of shown?.parts ?? []) {
    if (read.has(element) || element.checkVisibility?.() === false) continue;
    const bar = document.querySelector("#bar")?.getBoundingClientRect().top ?? innerHeight;
    const bottom = Math.min(innerHeight, bar > 0 ? bar : innerHeight);
    const place = element.getBoundingClientRect();
    if (place.height === 0) continue;
    if (place.top >= 0 && place.top < bottom) begun.add(element);
    const isFolded = element.querySelector("details:not([open])");
    if (begun.has(element) && !isFolded && place.bottom > 0 && place.bottom <= bottom) read.add(element);
  }
}

function statement() {
  const { call, values, count, without, parts } = shown;
  const seen = parts.filter(({ element }) => read.has(element)).flatMap((part) => part.values).length;
  return JSON.stringify({ profile: PROFILE, call, values, count, read: seen, without });
}

// Before any other listener: passkeys.js sends what the form holds for a challenge.
addEventListener(
  "submit",
  (event) => {
    const form = event.target;
    if (!shown || form.querySelector('input[name="digest"]')?.value !== shown.call) return;
    follow();
    let field = form.querySelector('input[name="rendered"]');
    if (!field) {
      field = Object.assign(document.createElement("input"), { type: "hidden", name: "rendered" });
      form.append(field);
    }
    field.value = statement();
  },
  true,
);
for (const name of ["scroll", "resize"]) addEventListener(name, follow, { passive: true });
document.addEventListener("toggle", follow, true);
document.addEventListener("htmx:afterSettle", look);
look();

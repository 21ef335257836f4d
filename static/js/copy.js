// Copy buttons, shown only where this runs: <button data-copy="text" hidden>, or <button data-copy-block hidden> in
// a .code, which copies what its `exact` elements stand for (the rule of dashboard/text/visible_text.py), hidden characters too.

import { gettext } from "./texts.js";

const BUTTONS = "button[data-copy], button[data-copy-block]";

function reveal(root) {
  for (const button of root.querySelectorAll(BUTTONS)) button.hidden = false;
}

// Uint8Array of the exact bytes below a node.
export function exactBytes(node) {
  const encoder = new TextEncoder();
  const bytes = [];
  const walk = (part) => {
    if (part.nodeType === Node.TEXT_NODE) {
      for (const byte of encoder.encode(part.data)) bytes.push(byte);
    } else if (part.nodeType === Node.ELEMENT_NODE && part.dataset.bytes !== undefined) {
      const once = (part.dataset.bytes.match(/../g) ?? []).map((pair) => parseInt(pair, 16));
      for (let times = Number(part.dataset.times ?? 1); times > 0; times -= 1) for (const byte of once) bytes.push(byte);
    } else {
      part.childNodes.forEach(walk);
    }
  };
  walk(node);
  return new Uint8Array(bytes);
}

function textOf(button) {
  if (button.dataset.copy !== undefined) return button.dataset.copy;
  const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const parts = [...button.closest(".code").querySelectorAll(".exact")];
  return parts.map((part) => strict.decode(exactBytes(part))).join("");
}

async function put(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // On plain http, which is how a phone in the same network sees us, only the old way works.
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "for-ears";
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (!done) throw new Error("not allowed");
}

document.addEventListener("click", async ({ target }) => {
  const button = target.closest(BUTTONS);
  if (!button) return;
  const words = button.dataset.words ?? button.textContent;
  button.dataset.words = words;
  try {
    await put(textOf(button));
    button.textContent = gettext("Copied");
  } catch (error) {
    button.textContent = error instanceof TypeError ? gettext("Not text") : gettext("Not allowed");
  }
  setTimeout(() => (button.textContent = words), 2000);
});

document.addEventListener("changed", ({ target }) => reveal(target));
document.addEventListener("htmx:afterSwap", () => reveal(document));
reveal(document);

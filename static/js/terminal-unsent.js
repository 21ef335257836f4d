// What was typed and is not sent: in view as long as there is no connection, and a question when that took long.

import { gettext } from "./texts.js";

const MOST_SHOWN = 300;
const NAMED = { "\r": "⏎", "\n": "⏎", "\t": "⇥", "\x7f": "⌫", "\x1b[A": "↑", "\x1b[B": "↓", "\x1b[C": "→", "\x1b[D": "←", "\x1b[Z": "⇤", "\x1b": "Esc " };
const KEY = /\x1b[[O][A-DZ]|[\x00-\x1f\x7f]/g;

// Returns {show()}: call it when line.unsent() is another.
export function wireUnsent(line, focus) {
  const box = document.getElementById("terminal-unsent");
  if (!box) return { show: () => {} };
  const about = document.getElementById("terminal-unsent-about");
  const text = box.querySelector("code");
  const send = box.querySelector('[data-tool="send"]');

  function show() {
    const unsent = line.unsent();
    const had = box.contains(document.activeElement);
    box.hidden = !unsent;
    if (!unsent) {
      about.textContent = "";
      return had && focus();
    }
    // What is late waits for the person, before the connection is back as after; the rest goes by itself.
    const words = unsent.lost ? gettext("Not sent:") : unsent.late ? gettext("Not sent. Send it when the connection is back:") : gettext("Not sent yet:");
    if (about.textContent !== words) about.textContent = words;
    text.textContent = readable(unsent.bytes);
    send.hidden = !unsent.held;
  }

  send.addEventListener("click", () => line.sendTyped());
  box.querySelector('[data-tool="discard"]').addEventListener("click", () => line.discard());
  for (const event of ["pointerdown", "mousedown"]) box.addEventListener(event, (press) => press.target.closest("button") && press.preventDefault());
  return { show };
}

function readable(bytes) {
  const text = new TextDecoder().decode(bytes);
  const start = text.length > MOST_SHOWN ? "… " : "";
  return start + text.slice(-MOST_SHOWN).replace(KEY, (key) => NAMED[key.replace("\x1bO", "\x1b[")] ?? `^${String.fromCharCode(key.charCodeAt(0) + 64)}`);
}

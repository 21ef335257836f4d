// A live terminal. Whoever only looks has an emulator that says nothing: no keys, no replies, no size.
// Of those who may type, one has the word (the host knows who): its emulator's replies count, its window gives the size.

import { gettext } from "./texts.js";
import { followKeyboard, wireKeys } from "terminal/keys";
import { Line } from "terminal/line";
import { wirePaste } from "terminal/paste";
import { showPeople } from "terminal/people";
import { openScreen } from "terminal/screen";
import { wireUnsent } from "terminal/unsent";

const SETTLE_MS = 80; // after the last change of the window

// What emulators say by themselves. "CSI row;col R" looks like a key (F3 with Shift) and is told apart by `asked`.
const REPLY = /^\x1b(?:[P\]]|\[[?>=]|\[0n|\[\d+;\d+\$y|\[[468];\d+;\d+t|\[[IO]$|\[\d+;\d+R)/;
const MAYBE_KEY = /^\x1b\[1;[2-8]R$/;

const root = document.querySelector("[data-terminal]");
const state = document.getElementById("terminal-state");
const screen = await openScreen({ disableStdin: root.hasAttribute("data-read-only") });
const { terminal, element } = screen;

let parsing = 0; // the offset at which what is parsed now begins
let asked = false; // a program asked where the cursor is, in what is parsed now
let settling = null;

const line = new Line(root.dataset.id, root.hasAttribute("data-read-only"), {
  output(bytes, offset, parsed) {
    terminal.write(bytes, () => {
      parsing = offset + bytes.length;
      root.dataset.drawn = String(parsing);
      parsed();
    });
  },
  // Through the queue of writes, so that it holds from the right byte on.
  size: (cols, rows) => terminal.write("", () => take(cols, rows)),
  gap(from, to) {
    const words = `${(to - from).toLocaleString("en")} bytes were not kept`;
    terminal.write(`\x1b[0m\r\n[${words}]\r\n`, () => (parsing = to));
  },
  state: say,
  may() {
    terminal.options.disableStdin = line.readOnly;
    keys.enable(!line.readOnly);
    fitSoon();
  },
  unsent: () => unsent.show(),
  people: showPeople,
  typed: () => fitSoon(), // who types has the word: now the size that fits here may hold
  ended(words) {
    terminal.options.disableStdin = true;
    terminal.options.cursorBlink = false;
    keys.enable(false);
    terminal.write("", () => say("quiet", words));
  },
});

const unsent = wireUnsent(line, () => terminal.focus());
const paste = wirePaste(screen, () => !line.readOnly && !line.over);
const keys = wireKeys(terminal, (text) => type(text), paste);

function say(tone, words) {
  state.dataset.tone = tone;
  state.textContent = words;
  root.dataset.state = line?.over ? "over" : line?.live ? "live" : "away";
}

function type(data) {
  if (!line.type(data) && !line.readOnly && !line.over) say("amber", line.live ? gettext("The program does not read; not typed") : gettext("Too much typed without a connection; not typed"));
  else if (line.live) line.sayState();
}

function isReply(data) {
  return REPLY.test(data) && (asked || !MAYBE_KEY.test(data));
}

terminal.onData((data) => {
  if (line.readOnly || line.over) return;
  if (!isReply(data)) return type(keys.held(data));
  if (parsing >= line.liveFrom) line.reply(data);
});
terminal.onBinary((data) => {
  if (!line.readOnly && !line.over) type(Uint8Array.from(data, (letter) => letter.charCodeAt(0)));
});

// Parsing happens in one go: whatever is said before the next microtask is the answer.
for (const prefix of ["", "?"]) {
  terminal.parser.registerCsiHandler({ prefix, final: "n" }, () => {
    asked = true;
    queueMicrotask(() => (asked = false));
    return false;
  });
}

// The size is that of the pty, whoever looks; who may type asks for the one that fits here.
function take(cols, rows) {
  if (cols !== terminal.cols || rows !== terminal.rows) terminal.resize(cols, rows);
  const room = screen.fits();
  element.toggleAttribute("data-fits", !room || (cols <= room.cols && rows <= room.rows));
}

function fit() {
  const room = screen.fits();
  if (!room) return;
  take(terminal.cols, terminal.rows);
  if (room.cols !== terminal.cols || room.rows !== terminal.rows) line.resize(room);
}

function fitSoon() {
  clearTimeout(settling);
  settling = setTimeout(fit, SETTLE_MS);
}

screen.changed = fitSoon;
followKeyboard();

screen.key = (event) => {
  if (event.key !== "F6" || !event.ctrlKey) return true;
  if (event.type === "keydown") document.querySelector('[data-tool="search"]').focus();
  return false;
};
if (!line.readOnly) terminal.focus();

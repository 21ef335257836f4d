// Keys that a touch screen lacks. A tap leaves the focus, and with it the phone's keyboard, where it is.

import { gettext } from "./texts.js";

const ARROWS = { up: "A", down: "B", right: "C", left: "D" };
const PLAIN = { escape: "\x1b", tab: "\t", "back-tab": "\x1b[Z", interrupt: "\x03" };
const HOLD_MS = 400; // before an arrow repeats
const REPEAT_MS = 60;

// `type(text)` sends, `paste()` pastes; returns {held(text), enable(on)}: text as the sticky Ctrl makes it.
export function wireKeys(terminal, type, paste) {
  const row = document.getElementById("terminal-keys");
  const ctrl = wireCtrl(row?.querySelector('[data-send="ctrl"]'));

  function arrow(letter) {
    if (ctrl.held()) return `\x1b[1;5${letter}`;
    return (terminal.modes.applicationCursorKeysMode ? "\x1bO" : "\x1b[") + letter;
  }

  function press({ send, text }) {
    if (send === "ctrl") return ctrl.press();
    if (send === "paste") return paste();
    if (text) type(ctrl.apply(text));
    else {
      type(ARROWS[send] ? arrow(ARROWS[send]) : PLAIN[send]);
      ctrl.used();
    }
    terminal.scrollToBottom();
  }

  if (row) wireRow(row, press);
  return {
    held: (text) => ctrl.apply(text),
    enable(on) {
      for (const button of row?.querySelectorAll("button") ?? []) button.disabled = !on;
    },
  };
}

// Ctrl: a tap holds it for the next key, a second one until a third.
function wireCtrl(button) {
  const states = ["off", "once", "locked"];
  const now = () => button?.dataset.held ?? "off";
  const become = (state) => {
    if (!button) return;
    button.dataset.held = state;
    button.setAttribute("aria-pressed", String(state !== "off"));
    button.setAttribute("aria-label", state === "locked" ? gettext("Ctrl, locked") : "Ctrl");
  };
  const used = () => now() === "once" && become("off");
  return {
    held: () => now() !== "off",
    press: () => become(states[(states.indexOf(now()) + 1) % states.length]),
    used,
    apply(text) {
      if (now() === "off" || text.length !== 1) return text;
      used();
      if (text === " ") return "\0";
      if (text === "/" || text === "-") return "\x1f";
      const code = text.toUpperCase().charCodeAt(0);
      return code >= 64 && code <= 95 ? String.fromCharCode(code & 31) : text;
    },
  };
}

// A tap is a key; an arrow that is held repeats.
function wireRow(row, press) {
  let timer = null;
  let repeated = false;
  const rest = () => clearTimeout(timer);
  const repeat = (button) => {
    repeated = true;
    if (button.disabled) return;
    press(button.dataset);
    timer = setTimeout(repeat, REPEAT_MS, button);
  };
  row.addEventListener("pointerdown", (event) => {
    const button = event.target.closest("button");
    rest();
    repeated = false;
    if (!button) return;
    event.preventDefault();
    if (ARROWS[button.dataset.send]) timer = setTimeout(repeat, HOLD_MS, button);
  });
  for (const event of ["pointerup", "pointercancel", "pointerleave"]) row.addEventListener(event, rest);
  row.addEventListener("keydown", () => (repeated = false));
  row.addEventListener("mousedown", (event) => event.preventDefault());
  row.addEventListener("contextmenu", (event) => event.preventDefault());
  row.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-send]");
    if (button && !button.disabled && !repeated) press(button.dataset);
    repeated = false;
  });
}

// The part of the page above a phone's keyboard, as a height for the layout; a page that is zoomed by two fingers keeps its own.
export function followKeyboard() {
  const seen = window.visualViewport;
  if (!seen) return;
  const follow = () => {
    document.documentElement.style.setProperty("--seen-height", `${Math.round(seen.height * seen.scale)}px`);
    if (seen.offsetTop && seen.scale === 1) window.scrollTo(0, 0);
  };
  seen.addEventListener("resize", follow);
  seen.addEventListener("scroll", follow);
}

// Keys that a touch screen lacks. A tap leaves the focus, and with it the phone's keyboard, where it is.

const ARROWS = { up: "A", down: "B", right: "C", left: "D" };
const PLAIN = { escape: "\x1b", tab: "\t", "back-tab": "\x1b[Z", interrupt: "\x03" };

// `type(text)` sends; returns {held(text)}: text as the sticky Ctrl makes it.
export function wireKeys(terminal, type) {
  const row = document.getElementById("terminal-keys");
  const ctrl = row?.querySelector('[data-send="ctrl"]');
  const hold = (on) => ctrl?.setAttribute("aria-pressed", String(on));
  const isHeld = () => ctrl?.getAttribute("aria-pressed") === "true";

  function arrow(letter) {
    if (isHeld()) return `\x1b[1;5${letter}`;
    return (terminal.modes.applicationCursorKeysMode ? "\x1bO" : "\x1b[") + letter;
  }

  async function paste() {
    try {
      terminal.paste(await navigator.clipboard.readText());
    } catch {
      terminal.focus(); // not allowed here: the keyboard's own paste goes into the terminal
    }
  }

  function press(name) {
    if (name === "ctrl") return hold(!isHeld());
    if (name === "paste") return paste();
    type(ARROWS[name] ? arrow(ARROWS[name]) : PLAIN[name]);
    hold(false);
    terminal.scrollToBottom();
  }

  row?.addEventListener("pointerdown", (event) => event.target.closest("button") && event.preventDefault());
  row?.addEventListener("mousedown", (event) => event.preventDefault());
  row?.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-send]");
    if (button && !button.disabled) press(button.dataset.send);
  });

  return {
    held(text) {
      if (!isHeld() || text.length !== 1) return text;
      hold(false);
      const code = text.toUpperCase().charCodeAt(0);
      if (text === " ") return "\0";
      return code >= 64 && code <= 95 ? String.fromCharCode(code & 31) : text;
    },
    enable(on) {
      for (const button of row?.querySelectorAll("button") ?? []) button.disabled = !on;
    },
  };
}

// The part of the page above a phone's keyboard, as a height for the layout.
export function followKeyboard() {
  const seen = window.visualViewport;
  if (!seen) return;
  const follow = () => {
    document.documentElement.style.setProperty("--seen-height", `${Math.round(seen.height)}px`);
    if (seen.offsetTop) window.scrollTo(0, 0);
  };
  seen.addEventListener("resize", follow);
  seen.addEventListener("scroll", follow);
}

// Pasting: a line goes in at once, several are shown first. Where a page may not read the clipboard, the dialog takes the text.

import { fill, gettext, ngettext } from "./texts.js";

// What a terminal takes for more than text; ESC could end a bracketed paste early and type the rest.
const CONTROLS = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g;

// Returns a function that pastes what the clipboard holds.
export function wirePaste({ terminal, element }, may) {
  const dialog = document.getElementById("terminal-paste");
  if (!dialog) return () => {};
  const field = dialog.querySelector("textarea");
  const title = document.getElementById("terminal-paste-title");
  const about = document.getElementById("terminal-paste-about");
  const button = dialog.querySelector(".primary");

  function describe() {
    const lines = field.value.replace(/\n$/, "").split("\n").length;
    const many = fill(ngettext("%(n)s line", "%(n)s lines", lines), { n: lines.toLocaleString(document.documentElement.lang) });
    title.textContent = field.value ? fill(gettext("Paste %(many)s?"), { many }) : gettext("Paste into the terminal");
    button.textContent = field.value ? fill(gettext("Paste %(many)s"), { many }) : gettext("Paste");
    button.disabled = !field.value;
    about.textContent = terminal.modes.bracketedPasteMode
      ? gettext("The program is told that this is pasted, and decides when to run it.")
      : gettext("Each line runs as soon as it is pasted.");
  }

  function ask(text) {
    field.value = text;
    describe();
    dialog.returnValue = "";
    dialog.showModal();
    if (!text) field.focus();
    else button.focus();
  }

  function take(text) {
    const clean = text.replace(CONTROLS, "");
    if (!may() || !clean) return;
    if (/[\r\n]/.test(clean)) ask(clean);
    else terminal.paste(clean);
  }

  field.addEventListener("input", describe);
  dialog.addEventListener("close", () => {
    if (dialog.returnValue === "paste" && may()) terminal.paste(field.value.replace(CONTROLS, ""));
    field.value = "";
    terminal.focus();
  });
  element.addEventListener(
    "paste",
    (event) => {
      event.preventDefault();
      event.stopPropagation();
      take(event.clipboardData.getData("text/plain"));
    },
    true,
  );
  return async () => {
    let text = "";
    try {
      text = await navigator.clipboard.readText();
    } catch {
      return ask(""); // not allowed here: the keyboard's own paste goes into the field
    }
    take(text);
  };
}

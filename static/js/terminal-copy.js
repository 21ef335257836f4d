// Copying: what is selected, or a page of plain text to select from, as touch screens select no letters of an emulator.

import { gettext } from "./texts.js";

// Returns a function that opens the page of text, at what the screen shows.
export function wireCopy(screen) {
  const { terminal } = screen;
  const dialog = document.getElementById("terminal-text");
  const text = document.getElementById("terminal-plain");
  const copied = document.getElementById("terminal-copied");
  const button = dialog.querySelector('[data-tool="copy-all"]');
  let chosen = ""; // what is selected in the text

  const open = () => {
    const shown = show(text, terminal);
    copied.textContent = "";
    dialog.showModal();
    text.focus();
    text.scrollTop = shown.offsetTop - text.offsetTop;
  };
  document.querySelector('[data-tool="copy"]').addEventListener("click", async () => {
    if (terminal.hasSelection() && (await put(terminal.getSelection()))) return terminal.focus();
    open();
  });
  document.addEventListener("selectionchange", () => {
    const selection = document.getSelection();
    chosen = text.contains(selection.anchorNode) && text.contains(selection.focusNode) ? selection.toString() : "";
    button.textContent = chosen ? gettext("Copy selected") : gettext("Copy all");
  });
  button.addEventListener("pointerdown", (event) => event.preventDefault()); // else the selection is gone by the click
  button.addEventListener("click", async () => {
    copied.textContent = (await put(chosen || text.textContent)) ? gettext("Copied.") : gettext("Select the text to copy it.");
  });
  // xterm keeps one handler, so the page that wants a key of its own gives it here.
  terminal.attachCustomKeyEventHandler((event) => {
    if (!isCopy(event)) return screen.key(event);
    if (event.type === "keydown" && terminal.hasSelection()) put(terminal.getSelection());
    event.preventDefault(); // else the browser opens its own tools
    return false;
  });
  return open;
}

async function put(words) {
  try {
    await navigator.clipboard.writeText(words);
    return true;
  } catch {
    return false; // not allowed here: the text stays, to be copied by hand
  }
}

function isCopy(event) {
  return event.code === "KeyC" && event.ctrlKey && event.shiftKey && !event.altKey && !event.metaKey;
}

// Fill `element` with the lines of the screen and of what scrolled away; returns the part that the screen shows.
function show(element, terminal) {
  const { active } = terminal.buffer;
  const lines = [];
  let first = 0; // the line that the screen shows on top
  for (let row = 0; row < active.length; row += 1) {
    const line = active.getLine(row);
    const words = line.translateToString(true);
    if (line.isWrapped && lines.length) lines[lines.length - 1] += words;
    else lines.push(words);
    if (row <= active.viewportY) first = lines.length - 1;
  }
  const above = lines.slice(0, first).map((line) => `${line}\n`);
  const shown = document.createElement("span");
  shown.textContent = lines.slice(first).join("\n").trimEnd();
  element.replaceChildren(above.join(""), shown);
  return shown;
}

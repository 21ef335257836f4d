// An emulator on the page, the same for what is live and what is played: letters, colours, search, links.
// What a program could do through an emulator is off: no clipboard (OSC 52), no title, no window commands;
// a link opens only after a person has read its address.

import { Terminal } from "xterm";
import { FitAddon } from "xterm/fit";
import { SearchAddon } from "xterm/search";
import { Unicode11Addon } from "xterm/unicode11";
import { WebLinksAddon } from "xterm/web-links";
import { WebglAddon } from "xterm/webgl";
import { colours, family, nextSize, onThemeChange, remember, remembered, size } from "terminal/theme";

const LINE_PX = 18; // how far a finger goes for a line

export async function openScreen(options) {
  const element = document.getElementById("terminal-screen");
  const terminal = new Terminal({
    allowProposedApi: true, // unicode11 and the marks of the search
    fontFamily: await family(),
    fontSize: size(),
    lineHeight: 1.2,
    minimumContrastRatio: 4.5,
    scrollback: 10_000,
    screenReaderMode: remembered("terminal-aloud") === "1",
    theme: colours(),
    linkHandler: { activate: (_event, address) => offer(address), allowNonHttpProtocols: false },
    ...options,
  });
  const fit = new FitAddon();
  const search = new SearchAddon();
  terminal.loadAddon(fit);
  terminal.loadAddon(search);
  terminal.loadAddon(new Unicode11Addon());
  terminal.loadAddon(new WebLinksAddon((_event, address) => offer(address)));
  terminal.unicode.activeVersion = "11";
  terminal.open(element);
  drawFast(terminal);
  onThemeChange(() => (terminal.options.theme = colours()));
  scrollByFinger(terminal, element);
  wireSearch(terminal, search);
  const screen = { terminal, element, fits: () => room(fit), changed: () => {}, key: () => true };
  wireTools(screen);
  new ResizeObserver(() => screen.changed()).observe(element);
  return screen;
}

// The context is lost on phones that run short of memory: then the DOM draws, slower.
function drawFast(terminal) {
  try {
    const webgl = new WebglAddon();
    webgl.onContextLoss(() => webgl.dispose());
    terminal.loadAddon(webgl);
  } catch {
    // no WebGL here
  }
}

// {cols, rows} that the page has room for.
function room(fit) {
  const found = fit.proposeDimensions();
  return found && found.cols > 1 && found.rows > 0 ? { cols: Math.min(found.cols, 1000), rows: Math.min(found.rows, 1000) } : null;
}

function offer(text) {
  let address;
  try {
    address = new URL(text);
  } catch {
    return;
  }
  if (address.protocol !== "https:" && address.protocol !== "http:") return;
  const dialog = document.getElementById("terminal-link");
  document.getElementById("terminal-address").textContent = address.href; // escaped, and host names as they travel
  dialog.returnValue = "";
  dialog.onclose = () => dialog.returnValue === "open" && window.open(address.href, "_blank", "noopener,noreferrer");
  dialog.showModal();
}

// A wheel is what the emulator knows: lines of the scrollback, or what the program wants of it.
function scrollByFinger(terminal, element) {
  let last = null;
  element.addEventListener("touchstart", (event) => (last = event.touches.length === 1 ? event.touches[0] : null), { passive: true });
  element.addEventListener(
    "touchmove",
    (event) => {
      if (!last || event.touches.length !== 1) return;
      const { clientX, clientY } = event.touches[0];
      const lines = Math.trunc((last.clientY - clientY) / LINE_PX);
      if (!lines) return;
      event.preventDefault();
      last = event.touches[0];
      if (terminal.buffer.active.type === "normal") return terminal.scrollLines(lines);
      for (let line = 0; line < Math.abs(lines); line += 1) {
        const wheel = new WheelEvent("wheel", { deltaY: Math.sign(lines), deltaMode: WheelEvent.DOM_DELTA_LINE, clientX, clientY, bubbles: true, cancelable: true });
        terminal.element.querySelector(".xterm-screen").dispatchEvent(wheel);
      }
    },
    { passive: false },
  );
}

function wireSearch(terminal, search) {
  const form = document.getElementById("terminal-search");
  const found = document.getElementById("terminal-found");
  const opener = document.querySelector('[data-tool="search"]');
  const field = form.elements.q;
  const marks = () => {
    const { yellow, cyan } = terminal.options.theme;
    return { decorations: { matchOverviewRuler: yellow, activeMatchColorOverviewRuler: cyan, matchBorder: yellow, activeMatchBorder: cyan } };
  };
  const show = (open) => {
    form.hidden = !open;
    opener.setAttribute("aria-expanded", String(open));
    if (open) return field.select();
    search.clearDecorations();
    terminal.focus();
  };
  search.onDidChangeResults(({ resultIndex, resultCount }) => {
    found.textContent = !field.value ? "" : resultCount ? `${resultIndex + 1} of ${resultCount}` : "Nothing found";
  });
  opener.addEventListener("click", () => show(form.hidden));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    search.findNext(field.value, marks());
  });
  form.querySelector('[data-tool="previous"]').addEventListener("click", () => search.findPrevious(field.value, marks()));
  field.addEventListener("input", () => search.findPrevious(field.value, { ...marks(), incremental: true }));
  form.addEventListener("keydown", (event) => event.key === "Escape" && show(false));
}

function wireTools(screen) {
  const { terminal } = screen;
  const grow = (step) => {
    terminal.options.fontSize = nextSize(step);
    screen.changed();
  };
  document.querySelector('[data-tool="smaller"]').addEventListener("click", () => grow(-1));
  document.querySelector('[data-tool="larger"]').addEventListener("click", () => grow(1));
  wireCopy(screen);
  const aloud = document.querySelector('[data-tool="aloud"]');
  aloud?.setAttribute("aria-pressed", String(terminal.options.screenReaderMode));
  aloud?.addEventListener("click", () => {
    const on = !terminal.options.screenReaderMode;
    terminal.options.screenReaderMode = on;
    remember("terminal-aloud", on ? "1" : "0");
    aloud.setAttribute("aria-pressed", String(on));
  });
}

// What is selected, or a page of plain text to select from: touch screens select no letters of an emulator.
function wireCopy(screen) {
  const { terminal } = screen;
  const dialog = document.getElementById("terminal-text");
  const text = document.getElementById("terminal-plain");
  const copied = document.getElementById("terminal-copied");
  const put = async (words) => {
    try {
      await navigator.clipboard.writeText(words);
      return true;
    } catch {
      return false; // not allowed here: the text stays, to be copied by hand
    }
  };
  document.querySelector('[data-tool="copy"]').addEventListener("click", async () => {
    if (terminal.hasSelection() && (await put(terminal.getSelection()))) return terminal.focus();
    text.textContent = plain(terminal);
    copied.textContent = "";
    dialog.showModal();
    text.scrollTop = text.scrollHeight;
  });
  dialog.querySelector('[data-tool="copy-all"]').addEventListener("click", async () => {
    copied.textContent = (await put(text.textContent)) ? "Copied." : "Select the text to copy it.";
  });
  // xterm keeps one handler, so the page that wants a key of its own gives it here.
  terminal.attachCustomKeyEventHandler((event) => {
    if (!isCopy(event)) return screen.key(event);
    if (event.type === "keydown" && terminal.hasSelection()) put(terminal.getSelection());
    event.preventDefault(); // else the browser opens its own tools
    return false;
  });
}

function isCopy(event) {
  return event.code === "KeyC" && event.ctrlKey && event.shiftKey && !event.altKey && !event.metaKey;
}

// The lines of the screen and of what scrolled away, without the blanks at their ends.
function plain(terminal) {
  const { active } = terminal.buffer;
  const lines = [];
  for (let row = 0; row < active.length; row += 1) {
    const line = active.getLine(row);
    const words = line.translateToString(true);
    if (line.isWrapped && lines.length) lines[lines.length - 1] += words;
    else lines.push(words);
  }
  return lines.join("\n").trimEnd();
}

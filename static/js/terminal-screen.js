// An emulator on the page, the same for what is live and what is played: letters, colours, search, links.
// What a program could do through an emulator is off: no clipboard (OSC 52), no title, no window commands;
// a link opens only after a person has read its address.

import { fill, gettext } from "./texts.js";
import { Terminal } from "xterm";
import { FitAddon } from "xterm/fit";
import { SearchAddon } from "xterm/search";
import { Unicode11Addon } from "xterm/unicode11";
import { WebLinksAddon } from "xterm/web-links";
import { WebglAddon } from "xterm/webgl";
import { wireCopy } from "terminal/copy";
import { colours, family, nextSize, onThemeChange, remember, remembered, size } from "terminal/theme";
import { wireTouch } from "terminal/touch";

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
  wireSearch(terminal, search);
  const screen = { terminal, element, fits: () => room(fit), changed: () => {}, key: () => true };
  wireTools(screen);
  wireTouch(screen, wireCopy(screen));
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
    found.textContent = !field.value ? "" : resultCount ? fill(gettext("%(one)s of %(all)s"), { one: resultIndex + 1, all: resultCount }) : gettext("Nothing found");
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
  const aloud = document.querySelector('[data-tool="aloud"]');
  aloud?.setAttribute("aria-pressed", String(terminal.options.screenReaderMode));
  aloud?.addEventListener("click", () => {
    const on = !terminal.options.screenReaderMode;
    terminal.options.screenReaderMode = on;
    remember("terminal-aloud", on ? "1" : "0");
    aloud.setAttribute("aria-pressed", String(on));
  });
}

// The emulator's colours and letters from our tokens, in both themes.

const COLOURS = {
  background: "--sunken",
  foreground: "--ink",
  cursor: "--accent",
  cursorAccent: "--sunken",
  selectionBackground: "--term-selection",
  selectionForeground: "--ink",
  black: "--term-black",
  red: "--red",
  green: "--calm",
  yellow: "--amber",
  blue: "--code-string",
  magenta: "--plum",
  cyan: "--accent",
  white: "--term-white",
  brightBlack: "--term-bright-black",
  brightRed: "--red",
  brightGreen: "--calm",
  brightYellow: "--code-number",
  brightBlue: "--code-string",
  brightMagenta: "--code-keyword",
  brightCyan: "--accent",
  brightWhite: "--term-bright-white",
};
const LETTERS = '"Atkinson Hyperlegible Mono"';
const FAMILY = `${LETTERS}, ui-monospace, monospace`;
const SIZES = [11, 12, 13, 14, 16, 18, 20, 24];

// What a token is worth now: light-dark() is settled only in a computed colour.
export function colours() {
  const probe = document.createElement("i");
  document.body.append(probe);
  const theme = {};
  for (const [name, token] of Object.entries(COLOURS)) {
    probe.style.color = `var(${token})`;
    theme[name] = hex(getComputedStyle(probe).color);
  }
  probe.remove();
  return theme;
}

function hex(rgb) {
  return "#" + rgb.match(/[\d.]+/g).slice(0, 3).map((part) => Math.round(part).toString(16).padStart(2, "0")).join("");
}

export function onThemeChange(tell) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
  new MutationObserver(tell).observe(document.documentElement, { attributeFilter: ["data-theme"] });
}

// The letters are measured once, so they must be there; without them in a second, others serve.
export async function family() {
  const late = new Promise((resolve) => setTimeout(resolve, 1000, []));
  const faces = await Promise.race([document.fonts.load(`14px ${LETTERS}`), late]);
  return faces.length ? FAMILY : "ui-monospace, monospace";
}

export function size() {
  const kept = Number(remembered("terminal-size"));
  return SIZES.includes(kept) ? kept : 14;
}

export function nextSize(step) {
  const at = Math.max(0, Math.min(SIZES.length - 1, SIZES.indexOf(size()) + step));
  remember("terminal-size", String(SIZES[at]));
  return SIZES[at];
}

// Storage may be refused by the browser; then a choice lasts as long as the page.
const forgotten = new Map();

export function remembered(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return forgotten.get(name) ?? null;
  }
}

export function remember(name, value) {
  forgotten.set(name, value);
  try {
    localStorage.setItem(name, value);
  } catch {
    // see above
  }
}

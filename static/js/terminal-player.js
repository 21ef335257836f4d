// A recording (asciicast, version 2) played at a speed of one's own; a program's long silences are cut short.

import { gettext } from "./texts.js";
import { openScreen } from "terminal/screen";

const SILENCE_S = 2;
const MOST_BYTES = 96 * 1024 * 1024; // of a recording that is played here; the download has all

const root = document.querySelector("[data-terminal]");
const bar = document.getElementById("terminal-player");
const state = document.getElementById("terminal-state");
const time = document.getElementById("terminal-time");
const button = bar.querySelector("button");
const slider = bar.querySelector("input");
const speed = bar.querySelector("select");
const { terminal, element } = await openScreen({ disableStdin: true, cursorBlink: false });

const events = []; // [seconds with silences cut, kind, data, seconds as they were]
let next = 0; // the first event that is not on the screen
let now = 0; // seconds
let playing = false;
let before = 0; // when the last frame was drawn, ms

function clock(seconds) {
  return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, "0")}`;
}

function say(tone, words) {
  state.dataset.tone = tone;
  state.textContent = words;
}

function length() {
  return events.length ? events.at(-1)[0] : 0;
}

function show() {
  slider.value = String(now);
  time.textContent = `${clock(now)} / ${clock(length())}`;
  slider.setAttribute("aria-valuetext", time.textContent);
}

function draw([, kind, data]) {
  if (kind === "o") terminal.write(data);
  if (kind === "r") {
    const [cols, rows] = data.split("x").map(Number);
    terminal.write("", () => terminal.resize(cols, rows));
  }
}

function drawUntil(seconds) {
  for (; next < events.length && events[next][0] <= seconds; next += 1) draw(events[next]);
  now = Math.min(seconds, length());
  show();
}

function seek(seconds) {
  if (seconds < now) {
    terminal.reset();
    next = 0;
  }
  drawUntil(seconds);
}

// To a moment as it was, such as that of an action; `moment` in seconds since the recording began.
function jump(moment) {
  const before = events.findLast((event) => event[3] <= moment);
  seek(before ? Math.min(before[0] + moment - before[3], before[0] + SILENCE_S) : 0);
  say("quiet", playing ? gettext("Playing") : gettext("Paused"));
}

function frame(at) {
  if (!playing) return;
  drawUntil(now + ((at - before) / 1000) * Number(speed.value));
  before = at;
  if (next >= events.length) return play(false);
  requestAnimationFrame(frame);
}

function play(on) {
  playing = on && events.length > 0;
  button.textContent = playing ? gettext("Pause") : gettext("Play");
  say("quiet", playing ? gettext("Playing") : next >= events.length ? gettext("The end of the recording") : gettext("Paused"));
  if (!playing) return;
  if (next >= events.length) seek(-1);
  before = performance.now();
  requestAnimationFrame(frame);
}

async function load() {
  const response = await fetch(root.dataset.cast, { redirect: "error" });
  if (!response.ok) throw new Error(String(response.status));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  let size = 0;
  let cut = 0; // seconds of silence left out so far
  let last = 0;
  const take = (text) => {
    const row = JSON.parse(text);
    if (!Array.isArray(row)) return terminal.resize(row.width, row.height);
    cut += Math.max(0, row[0] - last - SILENCE_S);
    last = row[0];
    events.push([row[0] - cut, row[1], row[2], row[0]]);
  };
  for (;;) {
    const { done, value = "" } = await reader.read();
    const lines = (rest + value).split("\n");
    rest = done ? "" : lines.pop();
    lines.filter(Boolean).forEach(take);
    size += value.length;
    if (done) return true;
    if (size > MOST_BYTES) {
      reader.cancel();
      return false;
    }
  }
}

button.addEventListener("click", () => play(!playing));
slider.addEventListener("input", () => {
  seek(Number(slider.value));
  say("quiet", playing ? gettext("Playing") : gettext("Paused"));
});

document.getElementById("terminal-asked")?.addEventListener("click", (event) => {
  const link = event.target.closest("[data-at]");
  if (!link || button.disabled || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  event.currentTarget.open = false;
  history.replaceState(null, "", link.href);
  jump(Number(link.dataset.at));
});

try {
  const whole = await load();
  slider.max = String(Math.max(Math.ceil(length() * 100) / 100, 0.01)); // a whole number of steps, so that its end is reached
  button.disabled = slider.disabled = false;
  element.dataset.loaded = "";
  show();
  const asked = Number(new URLSearchParams(location.search).get("at"));
  if (asked > 0) jump(asked);
  else {
    drawUntil(length()); // how it ended is what most people come for; Play begins at the start
    say("quiet", whole ? gettext("The end of the recording") : gettext("The end of the first part; the download has all"));
  }
} catch {
  say("red", gettext("The recording could not be loaded."));
}

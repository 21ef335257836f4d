// The feed: a socket says only "there is more, up to N"; whoever shows something asks for it again.
// Dispatches `live` {upto} on <body>, for hx-trigger="live from:body" and whoever else shows something.

import { fill, gettext } from "./texts.js";

const ASK = 20_000; // the socket is a hint: the page asks by itself as well
const POLL = 5_000; // without a socket
const MAX_PAUSE = 15_000;
const SIGNED_OUT = 4401;
const APART = 250; // between two `live`: a busy desk has more events in a second than a page can show

const body = document.body;
const line = document.getElementById("live-line");
let cursor = Number(body.dataset.cursor);
let socket = null;
let pause = 500;
let failures = 0;
let asking = false;
let lastHeard = new Date();
let lastTold = 0;
let telling = 0;

function heard(upto) {
  failures = 0;
  lastHeard = new Date();
  show("");
  if (!Number.isFinite(upto) || upto === cursor) return;
  cursor = upto;
  body.dataset.cursor = String(upto);
  tell();
}

function tell() {
  clearTimeout(telling);
  const early = lastTold + APART - Date.now();
  if (early > 0) {
    telling = setTimeout(tell, early);
    return;
  }
  lastTold = Date.now();
  body.dispatchEvent(new CustomEvent("live", { detail: { upto: cursor } }));
}

function missed() {
  failures += 1;
  if (failures < 2 && navigator.onLine) return;
  const at = lastHeard.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
  show(navigator.onLine ? fill(gettext("Handrail does not answer. Last checked %(at)s."), { at }) : fill(gettext("You are offline. This page may be out of date. Last checked %(at)s."), { at }));
}

function show(text) {
  body.toggleAttribute("data-offline", text !== "");
  showRunner(text === "");
  if (!line || line.textContent === text) return;
  line.textContent = text;
  line.hidden = text === "";
  body.dispatchEvent(new CustomEvent("reach", { detail: { reached: text === "" } }));
}

// What the header says of the runner came with the page: without an answer of the server it is not known any more.
function showRunner(isKnown) {
  const state = document.querySelector(".top .me .state");
  if (!state || isKnown === !state.hasAttribute("data-was")) return;
  if (isKnown) {
    [state.dataset.tone, state.textContent] = JSON.parse(state.dataset.was);
    state.removeAttribute("data-was");
  } else {
    state.dataset.was = JSON.stringify([state.dataset.tone, state.textContent]);
    state.dataset.tone = "quiet";
    state.textContent = gettext("Runner: not known");
  }
}

async function ask() {
  if (asking) return;
  asking = true;
  try {
    const response = await fetch(`/live?after=${cursor}`, { headers: { Accept: "application/json" }, redirect: "error", signal: AbortSignal.timeout(15_000) });
    if (!response.ok) throw new Error(String(response.status));
    heard((await response.json()).upto);
  } catch {
    missed();
  } finally {
    asking = false;
  }
}

function connect() {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  socket = new WebSocket(`${scheme}//${location.host}/ws/live?after=${cursor}`);
  socket.onopen = () => {
    pause = 500;
    ask();
  };
  socket.onmessage = (event) => {
    if (typeof event.data === "string") heard(JSON.parse(event.data).upto);
  };
  socket.onclose = ({ code }) => {
    socket = null;
    if (code === SIGNED_OUT) {
      body.setAttribute("data-signed-out", "");
      return show(gettext("You are signed out. Load the page again to sign in."));
    }
    ask();
    // Spread out, so that a restarted server does not meet all pages at once.
    setTimeout(connect, pause * (0.75 + Math.random() / 2));
    pause = Math.min(pause * 2, MAX_PAUSE);
  };
}

if (Number.isFinite(cursor)) {
  let waited = 0;
  setInterval(() => {
    if (body.hasAttribute("data-signed-out")) return;
    waited += POLL;
    if (socket?.readyState === WebSocket.OPEN && waited < ASK) return;
    waited = 0;
    ask();
  }, POLL);
  addEventListener("online", ask);
  addEventListener("offline", missed);
  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && ask());
  connect();
}

// The line to a terminal (frames: workspaces/pages/terminal_socket.py). It breaks and comes back at its offset: nothing that was
// printed is lost or doubled, and nothing that was typed either.

import { gettext } from "./texts.js";

const ACK_BYTES = 32 * 1024;
const MAX_PAUSE = 5_000;
const TYPED_BYTES = 256 * 1024; // typed and not yet there; more is not taken
const CHUNK = 16 * 1024; // of a paste
const LATE_MS = 5_000; // what could not be sent for longer is sent only when the person says so: much may have changed
const ALIVE_MS = 15_000; // between two questions whether the server is still there, while the page is on screen
const CONNECT_MS = 10_000; // how long a network may take to connect
const ANSWER_MS = 5_000; // how long it may take to answer one; then the network is gone without a word
const CLOSED = { 4401: gettext("You are signed out. Load the page again to sign in."), 4404: gettext("You may not see this terminal any more."), 4410: gettext("Its workspace was deleted for good."), 4400: "This page and Handrail do not understand each other. Load it again." };

const utf8 = new TextEncoder();
const newName = () => crypto.randomUUID?.() ?? String(Math.random()).slice(2);

// `on`: {output(bytes, offset, parsed), size(cols, rows), gap(from, to), state(tone, words), may(), typed(), unsent(), people(list),
// ended(words)}; output calls `parsed` when the bytes are on the screen, unsent says that `unsent()` is another.
export class Line {
  constructor(id, readOnly, on) {
    this.readOnly = readOnly;
    this.live = false;
    this.liveFrom = Infinity;
    this.over = false;
    this.asleep = false;
    this.on = on;
    this.id = id;
    this.name = newName();
    this.received = 0; // bytes handed to the emulator
    this.drawn = 0; // and parsed by it
    this.acked = 0;
    this.arrived = 0; // typed bytes that the host has
    this.typed = []; // and those after them: {bytes, at: when they were typed}
    this.waiting = 0; // bytes in `typed`
    this.held = false; // they are late: the person is asked first
    this.pause = 250;
    this.heard = 0; // messages so far
    this.connect();
    const look = () => document.visibilityState === "visible" && this.again();
    for (const event of ["online", "offline", "pageshow"]) addEventListener(event, look);
    document.addEventListener("visibilitychange", look);
    navigator.connection?.addEventListener?.("change", look);
    setInterval(look, ALIVE_MS);
  }

  connect() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const query = new URLSearchParams({ offset: this.received, typist: this.name, typed: this.arrived });
    const socket = new WebSocket(`${scheme}//${location.host}/ws/terminals/${this.id}?${query}`);
    socket.binaryType = "arraybuffer";
    socket.onmessage = ({ data }) => {
      if (socket !== this.socket) return;
      this.heard += 1;
      if (typeof data === "string") this.told(JSON.parse(data));
      else this.output(new Uint8Array(data));
    };
    socket.onclose = ({ code }) => socket === this.socket && this.lost(code);
    this.socket = socket;
    setTimeout(() => socket === this.socket && socket.readyState === WebSocket.CONNECTING && this.reconnect(), CONNECT_MS);
  }

  // The person is back, or the network is another: connect now, or find out whether the connection still is one.
  again() {
    if (this.over) return;
    if (this.socket?.readyState === WebSocket.OPEN) return this.ask();
    if (!this.timer) return;
    clearTimeout(this.timer);
    this.timer = null;
    this.connect();
  }

  ask() {
    const { socket, heard } = this;
    socket.send(JSON.stringify({ type: "alive" }));
    setTimeout(() => {
      if (socket === this.socket && heard === this.heard) this.reconnect();
    }, ANSWER_MS);
  }

  reconnect() {
    const { socket } = this;
    this.lost();
    socket.close();
  }

  lost(code) {
    this.live = false;
    this.socket = null;
    if (this.over) return;
    if (CLOSED[code]) {
      this.over = true;
      this.on.state("red", CLOSED[code]);
    } else {
      this.on.state("amber", gettext("Reconnecting…"));
    }
    this.on.people([]);
    this.on.unsent();
    if (this.over) return;
    // Spread out, so that a restarted server does not meet all pages at once.
    this.timer = setTimeout(() => this.again(), this.pause * (0.75 + Math.random() / 2));
    this.pause = Math.min(this.pause * 2, MAX_PAUSE);
  }

  told(frame) {
    if (frame.type === "ready") this.ready(frame);
    else if (frame.type === "size") this.on.size(frame.cols, frame.rows);
    else if (frame.type === "typed") {
      this.hasArrived(frame.count);
      this.on.typed();
    }
    else if (frame.type === "people") this.on.people(frame.people);
    else if (frame.type === "may") this.may(frame.read_only);
    else if (frame.type === "sleep") {
      this.asleep = frame.asleep;
      this.waking = this.waiting > 0;
      this.sayState();
    }
    else if (frame.type === "gap") {
      this.on.gap(frame.from, frame.to);
      this.received = frame.to;
      this.drawn = Math.max(this.drawn, frame.to);
    } else if (frame.type === "exit") {
      this.over = true;
      this.live = false;
      this.socket.close();
      this.forget();
      this.on.people([]);
      this.on.ended(frame.words);
    }
  }

  ready({ read_only, live_from, typed }) {
    this.pause = 250;
    this.live = true;
    this.asleep = false; // else the next frame says so
    this.readOnly = read_only;
    this.liveFrom = live_from;
    this.acked = this.drawn;
    if (read_only) this.forget();
    this.hasArrived(typed);
    this.held = this.typed.length > 0 && (this.held || Date.now() - this.typed[0].at > LATE_MS);
    if (!this.held) this.sendTyped();
    this.on.unsent();
    this.sayState();
    this.on.may();
  }

  may(readOnly) {
    this.readOnly = readOnly;
    if (readOnly) this.forget();
    else return this.reconnect(); // to take a seat among those who type
    this.sayState();
    this.on.may();
  }

  sayState() {
    if (this.asleep && this.waking) this.on.state("accent", gettext("Resuming"));
    else if (this.asleep) this.on.state("quiet", this.readOnly ? gettext("Paused") : gettext("Paused; typing resumes it"));
    else this.on.state("calm", this.readOnly ? gettext("Connected, read only") : gettext("Connected"));
  }

  // What a program asked before we watched was answered by somebody else, or is long past: a piece is old or live.
  output(bytes) {
    const split = Math.min(Math.max(this.liveFrom - this.received, 0), bytes.length);
    for (const piece of [bytes.subarray(0, split), bytes.subarray(split)]) {
      if (!piece.length) continue;
      const offset = this.received;
      this.received += piece.length;
      this.on.output(piece, offset, () => this.parsed(offset + piece.length));
    }
  }

  parsed(offset) {
    this.drawn = Math.max(this.drawn, offset);
    if (!this.live || (this.drawn - this.acked < ACK_BYTES && this.drawn < this.received)) return;
    this.acked = this.drawn;
    this.say({ type: "ack", offset: this.drawn });
  }

  say(frame) {
    if (this.live) this.socket.send(JSON.stringify(frame));
  }

  // False when it goes nowhere.
  type(data) {
    const bytes = typeof data === "string" ? utf8.encode(data) : data;
    if (this.readOnly || this.over || this.waiting + bytes.length > TYPED_BYTES) return false;
    for (let at = 0; at < bytes.length; at += CHUNK) {
      const chunk = bytes.subarray(at, at + CHUNK);
      this.typed.push({ bytes: chunk, at: Date.now() });
      this.waiting += chunk.length;
      if (this.live && !this.held) this.socket.send(chunk);
    }
    this.waking = true; // where it is asleep
    if (this.held || !this.live) {
      this.on.unsent();
      setTimeout(() => this.on.unsent(), LATE_MS + 50);
    }
    return true;
  }

  // What was typed and waits for the connection, or for the person (held): {bytes, held, late, lost}; null if there is nothing. What
  // is late is not sent by itself; it is lost where there will be no connection.
  unsent() {
    if (!this.typed.length || (this.live && !this.held)) return null;
    const bytes = new Uint8Array(this.waiting);
    let at = 0;
    for (const chunk of this.typed) {
      bytes.set(chunk.bytes, at);
      at += chunk.bytes.length;
    }
    const late = this.held || Date.now() - this.typed[0].at > LATE_MS;
    return { bytes, held: this.live && this.held, late, lost: this.over };
  }

  sendTyped() {
    this.held = false;
    for (const { bytes } of this.typed) this.socket.send(bytes);
    this.on.unsent();
  }

  // The host may have part of it by now, and counts by name: what is typed from here on is counted under another.
  discard() {
    this.forget();
    this.name = newName();
    this.arrived = 0;
    if (this.live) this.reconnect();
  }

  hasArrived(count) {
    let fresh = count - this.arrived;
    this.arrived = count;
    while (fresh > 0 && this.typed.length) {
      const [first] = this.typed;
      const part = Math.min(fresh, first.bytes.length);
      if (part === first.bytes.length) this.typed.shift();
      else first.bytes = first.bytes.subarray(part);
      this.waiting -= part;
      fresh -= part;
    }
  }

  forget() {
    this.typed = [];
    this.waiting = 0;
    this.held = false;
    this.on.unsent();
  }

  reply(data) {
    if (!this.readOnly) this.say({ type: "reply", data });
  }

  resize({ cols, rows }) {
    if (!this.readOnly) this.say({ type: "resize", cols, rows });
  }
}

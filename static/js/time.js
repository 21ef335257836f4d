// Times in the viewer's zone: the server writes them in the zone of the cookie, this keeps them current.
// <time datetime> is relative; with data-age in few letters, with data-clock by the clock, with data-until counts its
// last minutes down, and data-left shows nothing but those. The exact time is the title, and a tap swaps the two.

import { fill, gettext, ngettext } from "./texts.js";

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const secure = location.protocol === "https:" ? "; Secure" : "";
if (zone) document.cookie = `handrail-zone=${zone}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;

// The form of the filters `when` and `clock`, whatever the browser's language.
const hour = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const second = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium", hourCycle: "h23" });
// Browsers abbreviate months in ways of their own ("Sept").
const MONTHS = gettext("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec").split(" ");
const day = (moment) => fill(gettext("%(day)s %(month)s"), { day: moment.getDate(), month: MONTHS[moment.getMonth()] });
const dated = (moment) => `${day(moment)} ${moment.getFullYear()}`;

// The same words as `ago` in dashboard/text/moments.py.
export function ago(moment, now = new Date()) {
  const seconds = (now - moment) / 1000;
  const span = Math.abs(seconds);
  const past = seconds >= 0;
  if (span < 45) return past ? gettext("just now") : gettext("in less than a minute");
  let n = Math.round(span / 60);
  if (n < 60) return fill(past ? gettext("%(n)s min ago") : gettext("in %(n)s min"), { n });
  n = Math.round(span / 3600);
  if (n < 36) return fill(past ? gettext("%(n)s h ago") : gettext("in %(n)s h"), { n });
  n = Math.round(span / 86400);
  if (n < 45) return fill(past ? ngettext("%(n)s day ago", "%(n)s days ago", n) : ngettext("in %(n)s day", "in %(n)s days", n), { n });
  return dated(moment);
}

export function clock(moment, now = new Date()) {
  if (moment.toDateString() === now.toDateString()) return hour.format(moment);
  const date = moment.getFullYear() === now.getFullYear() ? day : dated;
  return `${date(moment)} ${hour.format(moment)}`;
}

const COUNTDOWN = 180; // seconds

// "until 14:05", and near the end "1:42 left".
function until(time, moment) {
  const left = Math.ceil((moment - new Date()) / 1000);
  time.toggleAttribute("data-ends", left <= COUNTDOWN);
  if (left <= 0) return gettext("expired");
  if (left > COUNTDOWN) return fill(gettext("until %(time)s"), { time: clock(moment) });
  return fill(gettext("%(time)s left"), { time: `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")}` });
}

const COUNTED = 300; // seconds, as in `countdown` of dashboard/text/moments.py

// "1:52" in the last minutes, nothing before.
function left(time, moment) {
  const seconds = Math.max(0, Math.ceil((moment - new Date()) / 1000));
  const ends = seconds <= COUNTED;
  time.toggleAttribute("data-ends", ends);
  return ends ? `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}` : "";
}

// The same words as `age` in dashboard/text/moments.py.
function age(moment) {
  const seconds = Math.max(0, (new Date() - moment) / 1000);
  if (seconds < 45) return gettext("now");
  let n = Math.round(seconds / 60);
  if (n < 60) return fill(gettext("%(n)s min"), { n });
  n = Math.round(seconds / 3600);
  return n < 36 ? fill(gettext("%(n)s h"), { n }) : fill(gettext("%(n)s d"), { n: Math.round(seconds / 86400) });
}

function words(time, moment) {
  if (time.hasAttribute("data-exact")) return time.title;
  if (time.hasAttribute("data-until")) return until(time, moment);
  if (time.hasAttribute("data-left")) return left(time, moment);
  if (time.hasAttribute("data-age")) return age(moment);
  return time.hasAttribute("data-clock") ? clock(moment) : ago(moment);
}

function write(time) {
  const moment = new Date(time.dateTime);
  if (Number.isNaN(moment.getTime())) return;
  time.title = `${dated(moment)} ${second.format(moment)}`;
  const text = words(time, moment);
  if (time.textContent !== text) time.textContent = text;
}

function writeAll(root = document) {
  for (const time of root.querySelectorAll("time[datetime]")) write(time);
}

document.addEventListener("click", ({ target }) => {
  const time = target instanceof Element ? target.closest("time[datetime]") : null;
  if (!time || time.closest("a, button, summary, label")) return;
  time.toggleAttribute("data-exact");
  write(time);
});
document.addEventListener("changed", ({ target }) => writeAll(target));
document.addEventListener("htmx:afterSwap", () => writeAll());
setInterval(writeAll, 20_000, document);
setInterval(() => document.querySelectorAll("time[data-until], time[data-left]").forEach(write), 1000);
writeAll();

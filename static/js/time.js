// Times in the viewer's zone: the server writes them in the zone of the cookie, this keeps them current.
// <time datetime> is relative; with data-clock it is by the clock, and with data-until counts its last minutes down. The exact time is the title, and a tap swaps the two.

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

function write(time) {
  const moment = new Date(time.dateTime);
  if (Number.isNaN(moment.getTime())) return;
  time.title = `${dated(moment)} ${second.format(moment)}`;
  const text = time.hasAttribute("data-exact") ? time.title : time.hasAttribute("data-until") ? until(time, moment) : time.hasAttribute("data-clock") ? clock(moment) : ago(moment);
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
setInterval(() => document.querySelectorAll("time[data-until]").forEach(write), 1000);
writeAll();

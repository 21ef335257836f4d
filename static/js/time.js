// Times in the viewer's zone: the server writes them in the zone of the cookie, this keeps them current.
// <time datetime> is relative; with data-clock it is by the clock, and with data-until counts its last minutes down. The exact time is the title, and a tap swaps the two.

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const secure = location.protocol === "https:" ? "; Secure" : "";
if (zone) document.cookie = `handrail-zone=${zone}; Path=/; Max-Age=31536000; SameSite=Lax${secure}`;

// The form of the filters `when` and `clock`, whatever the browser's language.
const hour = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const second = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium", hourCycle: "h23" });
// Browsers abbreviate months in ways of their own ("Sept").
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const day = (moment) => `${moment.getDate()} ${MONTHS[moment.getMonth()]}`;
const dated = (moment) => `${day(moment)} ${moment.getFullYear()}`;

// The same words as the filter `ago` in dashboard/templatetags/handrail.py.
export function ago(moment, now = new Date()) {
  const seconds = (now - moment) / 1000;
  const span = Math.abs(seconds);
  if (span < 45) return seconds >= 0 ? "just now" : "in less than a minute";
  for (const [unit, length, limit] of [["min", 60, 60], ["h", 3600, 36], ["days", 86400, 45]]) {
    const count = Math.round(span / length);
    if (count >= limit) continue;
    const name = unit === "days" && count === 1 ? "day" : unit;
    return seconds >= 0 ? `${count} ${name} ago` : `in ${count} ${name}`;
  }
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
  if (left <= 0) return "expired";
  return left > COUNTDOWN ? `until ${clock(moment)}` : `${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")} left`;
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

// This browser as a device: registers the service worker, and switches its notifications on and off.

import { fill, gettext } from "./texts.js";

const TOLD = "handrail-push-told"; // the session that this tab has told the server of
const PERSON = "handrail-push-person"; // who switched it on: another person who signs in here is not told unasked
const { person, session } = document.body.dataset;
const box = document.querySelector("[data-push-switch]");

function csrf() {
  return JSON.parse(document.body.getAttribute("hx-headers") ?? "{}")["X-CSRFToken"] ?? "";
}

async function post(address, body) {
  const headers = { "Content-Type": "application/json", "X-CSRFToken": csrf() };
  const response = await fetch(address, { method: "POST", headers, body: JSON.stringify(body), redirect: "error" });
  if (response.ok) return;
  throw new Error((await response.json().catch(() => ({}))).detail ?? fill(gettext("Handrail answered %(status)s."), { status: response.status }));
}

// The server keeps the session with the subscription: a new sign-in has to be told.
async function renew(subscription) {
  if (sessionStorage.getItem(TOLD) === session && !box) return;
  await post("/me/notifications/device/", subscription.toJSON());
  sessionStorage.setItem(TOLD, session);
}

function say(text, on = null) {
  if (!box) return;
  box.querySelector("[data-push-state]").textContent = text;
  box.querySelector("[data-push-on]").hidden = on !== false;
  box.querySelector("[data-push-off]").hidden = on !== true;
}

function key() {
  const raw = atob(box.dataset.pushKey.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(raw, (char) => char.charCodeAt(0));
}

async function switchOn(registration) {
  if ((await Notification.requestPermission()) !== "granted") {
    return say(gettext("This browser does not allow notifications from here. Allow them in its settings for this site."), false);
  }
  try {
    const subscription = await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key() });
    localStorage.setItem(PERSON, person);
    await renew(subscription);
    location.reload();
  } catch (error) {
    say(fill(gettext("Notifications could not be switched on: %(error)s"), { error: error.message }), false);
  }
}

async function switchOff(registration) {
  const subscription = await registration.pushManager.getSubscription();
  if (subscription) {
    await post("/me/notifications/device/drop/", { endpoint: subscription.endpoint });
    await subscription.unsubscribe();
  }
  sessionStorage.removeItem(TOLD);
  localStorage.removeItem(PERSON);
  location.reload();
}

async function start() {
  if (!isSecureContext || !("serviceWorker" in navigator)) {
    return say(gettext("This browser takes no notifications at this address. My phone says why, and what helps."));
  }
  await navigator.serviceWorker.register("/service-worker.js", { updateViaCache: "none" });
  const registration = await navigator.serviceWorker.ready;
  if (!("pushManager" in registration)) return say(gettext("This browser takes no notifications. On an iPhone, add Handrail to the home screen first."));
  const found = await registration.pushManager.getSubscription();
  const subscription = found && localStorage.getItem(PERSON) === person ? found : null;
  if (box) {
    box.querySelector("[data-push-on]").onclick = () => switchOn(registration);
    box.querySelector("[data-push-off]").onclick = () => switchOff(registration);
    say(subscription ? gettext("This device takes notifications.") : gettext("This device takes no notifications."), subscription !== null);
  }
  if (subscription) await renew(subscription);
}

start().catch((error) => say(fill(gettext("Notifications are not available: %(error)s"), { error: error.message })));

// Asking the device for a passkey when a form is sent, and sending the form with its answer. Without this file the forms
// with data-passkey-ceremony stay hidden or say that they need it, and the server refuses approvals that take a passkey.
//
//   form[data-passkey-ceremony]         "create", "use" (both with data-passkey-options, JSON) or "sign-in", which fetches
//                                       the options from the form's action; the answer goes into its field `credential`
//   [data-passkey-for=address]          forms that post to this address, or to one below it, take a passkey; what they
//                                       would post goes to data-passkey-challenge first; the answer into a field `passkey`
//   [data-no-passkeys]                  shown where browsers offer no passkeys, as the address is plain http
//   [data-passkey-says]                 where an error is said; made in the form if missing

import { fill, gettext } from "./texts.js";

const supported = typeof PublicKeyCredential === "function" && Boolean(navigator.credentials);
const answered = new WeakSet(); // forms that are being sent with an answer
const REFUSED = gettext("No passkey was used. Nothing was sent.");
const WORDS = {
  NotAllowedError: REFUSED,
  AbortError: REFUSED,
  InvalidStateError: gettext("This device has a passkey of yours already."),
  SecurityError: gettext("Passkeys don't work at this address."),
};

function toBytes(text) {
  const plain = atob(text.replace(/-/g, "+").replace(/_/g, "/"));
  return Uint8Array.from(plain, (character) => character.charCodeAt(0));
}

function toText(buffer) {
  const plain = String.fromCharCode(...new Uint8Array(buffer));
  return btoa(plain).replace(/\+/g, "-").replace(/\//g, "_").replace(/={1,2}$/, "");
}

function withBytes(list) {
  return (list ?? []).map((each) => ({ ...each, id: toBytes(each.id) }));
}

async function create(options) {
  const publicKey = { ...options, challenge: toBytes(options.challenge), excludeCredentials: withBytes(options.excludeCredentials) };
  publicKey.user = { ...options.user, id: toBytes(options.user.id) };
  // A passkey: found by the device without a user name, and it verifies its person.
  publicKey.authenticatorSelection = { residentKey: "required", requireResidentKey: true, userVerification: "required" };
  const made = await navigator.credentials.create({ publicKey });
  const response = { clientDataJSON: toText(made.response.clientDataJSON), attestationObject: toText(made.response.attestationObject) };
  if (made.response.getTransports) response.transports = made.response.getTransports();
  return { id: made.id, rawId: toText(made.rawId), type: made.type, response, clientExtensionResults: made.getClientExtensionResults() };
}

async function use(options) {
  const publicKey = { ...options, challenge: toBytes(options.challenge), allowCredentials: withBytes(options.allowCredentials) };
  const found = await navigator.credentials.get({ publicKey });
  const response = {};
  for (const name of ["clientDataJSON", "authenticatorData", "signature", "userHandle"]) {
    if (found.response[name]) response[name] = toText(found.response[name]);
  }
  return { id: found.id, rawId: toText(found.rawId), type: found.type, response, clientExtensionResults: {} };
}

class Refusal extends Error {}

async function fetchJson(address, init) {
  const answer = await fetch(address, { ...init, headers: { Accept: "application/json" }, credentials: "same-origin" });
  const found = await answer.json().catch(() => ({}));
  if (answer.status === 429) throw new Refusal(gettext("Too many tries. Wait a minute."));
  if (!answer.ok) throw new Refusal(found.detail ?? gettext("Handrail did not answer. Nothing was sent."));
  return found;
}

async function ofCeremony(form) {
  const kind = form.dataset.passkeyCeremony;
  if (kind === "sign-in") return use((await fetchJson(addressOf(form))).request_options.publicKey);
  const options = JSON.parse(form.dataset.passkeyOptions).publicKey;
  return kind === "create" ? create(options) : use(options);
}

async function ofApproval(form, submitter, marker) {
  const body = new FormData(form, submitter);
  if (addressOf(form) !== marker.dataset.passkeyFor) body.set("alone", "1");
  const challenge = await fetchJson(marker.dataset.passkeyChallenge, { method: "POST", body });
  return { challenge: challenge.id, credential: await use(challenge.options) };
}

// Not form.action, which is the field of that name if there is one.
function addressOf(form) {
  return new URL(form.getAttribute("action") ?? "", location.href).pathname;
}

function markerOf(form) {
  const address = addressOf(form);
  return [...document.querySelectorAll("[data-passkey-for]")].find((each) => address.startsWith(each.dataset.passkeyFor));
}

function fieldOf(form, name) {
  let field = form.querySelector(`input[name="${name}"]`);
  if (!field) {
    field = document.createElement("input");
    field.type = "hidden";
    field.name = name;
    form.append(field);
  }
  return field;
}

function say(form, words) {
  let line = form.querySelector("[data-passkey-says]");
  if (!line) {
    line = document.createElement("p");
    line.className = "bar-say";
    line.dataset.passkeySays = "";
    line.setAttribute("role", "alert");
    form.prepend(line);
  }
  line.textContent = words;
  line.hidden = words === "";
}

// The form may change while the device asks its person: a card is morphed, or shows another step.
async function ask(form, submitter, name, answer) {
  form.setAttribute("aria-busy", "true");
  say(form, "");
  try {
    const found = JSON.stringify(await answer());
    if (!form.isConnected || submitter?.isConnected === false) throw new Refusal(gettext("This has just appeared or changed. Tap again."));
    fieldOf(form, name).value = found;
    form.removeAttribute("data-sent"); // card.js lets a form through once
    form.setAttribute("data-passkey-answered", ""); // the tap came before the button began to rest
    answered.add(form);
    form.requestSubmit(submitter);
  } catch (error) {
    form.removeAttribute("data-sent");
    say(inPlaceOf(form), error instanceof Refusal ? error.message : WORDS[error.name] ?? fill(gettext("The passkey failed: %(error)s"), { error: error.message }));
  } finally {
    form.removeAttribute("aria-busy");
    form.removeAttribute("data-passkey-answered");
  }
}

function inPlaceOf(form) {
  if (form.isConnected) return form;
  return [...document.forms].find((each) => addressOf(each) === addressOf(form)) ?? form;
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  const marker = form.method === "post" ? markerOf(form) : undefined;
  if (event.defaultPrevented || (!marker && !form.dataset.passkeyCeremony)) return;
  const name = marker ? "passkey" : "credential";
  if (answered.delete(form)) return; // sent again, it needs a new answer
  event.preventDefault();
  if (form.getAttribute("aria-busy") === "true") return;
  ask(form, event.submitter, name, () => (marker ? ofApproval(form, event.submitter, marker) : ofCeremony(form)));
});

for (const line of document.querySelectorAll("[data-no-passkeys]")) line.hidden = isSecureContext;
for (const form of document.querySelectorAll("form[data-passkey-ceremony]")) {
  if (supported) form.hidden = false;
  const line = form.querySelector("[data-passkey-says]");
  if (line) say(form, supported ? "" : gettext("This browser can't use passkeys at this address."));
}

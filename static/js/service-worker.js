// The service worker: shows notifications, sends their answers, and says offline that nothing is known.
// It caches nothing: a page of Handrail shows a state, and an old state is a wrong one.

// In the browser's language, as the page's own is not known here.
const IN_GERMAN = navigator.language.startsWith("de");
const SAYS = IN_GERMAN
  ? ["Handrail ist nicht erreichbar", "Was auf Freigabe wartet, ist hier nicht bekannt, und nichts wurde gesendet. Entscheiden Sie, sobald Sie wieder verbunden sind.", "Erneut versuchen"]
  : ["Handrail can't be reached", "Nothing is known here about what needs approval, and nothing was sent. Decide when you are connected again.", "Try again"];
const UNSURE = IN_GERMAN
  ? "Ob Ihre Antwort angekommen ist, ist hier nicht bekannt. Sie wird nicht noch einmal gesendet: Sehen Sie nach, sobald Sie wieder verbunden sind."
  : "Whether your answer arrived is not known here. It is not sent again: look when you are connected again.";
// Until Handrail answers again; then the page that was wanted comes by itself.
const RETURNS = `const look = async () => {
  try { if ((await fetch("/healthz", { cache: "no-store" })).ok) return location.reload(); } catch {}
  setTimeout(look, 3000);
};
addEventListener("online", look, { once: true });
setTimeout(look, 3000);`;
const words = (says, link, nonce) => `<!DOCTYPE html><html lang="${IN_GERMAN ? "de" : "en"}"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<title>Offline · Handrail</title><style>body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:3rem auto;padding:0 1rem}
a{display:inline-block;padding:.7rem 1rem;border:1px solid;border-radius:10px;color:inherit}</style></head>
<body><main><h1>${SAYS[0]}</h1>
<p>${says}</p>
<p><a href="${link}">${SAYS[2]}</a></p></main><script nonce="${nonce}">${RETURNS}</script></body></html>`;
const policy = (nonce) => `default-src 'none'; style-src 'unsafe-inline'; script-src 'nonce-${nonce}'; connect-src 'self'; base-uri 'none'; form-action 'none'`;

addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(Promise.all([preload(), clients.claim()])));

// Pages are asked for while this worker still starts: on a slow phone, starting takes as long as the answer.
async function preload() {
  await registration.navigationPreload?.enable();
}

addEventListener("fetch", (event) => {
  const { mode, method, url } = event.request;
  if (mode !== "navigate") return;
  if (method === "GET") return event.respondWith(page(event).catch(() => offline(url)));
  const card = new URL(url).pathname.match(/^\/(?:actions\/[0-9a-f-]{36}|waiting)\//);
  // An answer that fails on its way leads to the request itself, so that loading the page again does not send it again.
  if (card) event.respondWith(fetch(event.request).catch(() => Response.redirect(`${card[0]}?unsure=1`, 303)));
});

async function page(event) {
  return (await event.preloadResponse) ?? fetch(event.request);
}

function offline(url) {
  const { pathname, search } = new URL(url);
  const says = search === "?unsure=1" ? [UNSURE, pathname] : [SAYS[1], ""];
  const nonce = crypto.randomUUID();
  const headers = { "Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": policy(nonce), "Cache-Control": "no-store" };
  return new Response(words(...says, nonce), { status: 503, headers });
}

addEventListener("push", (event) => {
  const told = read(event.data);
  event.waitUntil(told.kind === "close" ? withdraw(told) : show(told));
});

function read(data) {
  const fallback = { kind: "ask", tag: "handrail", title: "Handrail", body: "Something needs approval.", url: "/", tokens: {} };
  try {
    return { ...fallback, ...data?.json() };
  } catch {
    return fallback;
  }
}

// The words of the buttons; a tap on the notification itself reviews, so that button goes first where two fit.
function buttons(told) {
  if (told.kind !== "ask" || told.tag === "handrail") return [];
  const offered = [{ action: "review", title: told.labels?.review ?? "Review" }];
  if (told.tokens?.deny) offered.unshift({ action: "deny", title: told.labels?.deny ?? "Deny" });
  if (told.tokens?.approve) offered.push({ action: "approve", title: told.labels?.approve ?? "Approve" });
  const most = Notification.maxActions || 2;
  return offered.length > most ? offered.filter((one) => one.action !== "review") : offered;
}

async function show(told) {
  await registration.showNotification(told.title, {
    body: told.body,
    tag: told.tag,
    renotify: true,
    icon: "/static/icons/icon-192.png",
    badge: "/static/icons/badge-96.png",
    actions: buttons(told),
    requireInteraction: told.kind === "ask",
    data: told,
  });
  await report(told, "shown");
}

// Shown before it is closed, because browsers take the right to push from those who show nothing.
async function withdraw(told) {
  await registration.showNotification(told.title, { body: told.body, tag: told.tag, silent: true, icon: "/static/icons/icon-192.png", data: told });
  for (const notification of await registration.getNotifications({ tag: told.tag })) notification.close();
}

function post(address, body) {
  const headers = { "Content-Type": "application/json" };
  return fetch(address, { method: "POST", headers, body: JSON.stringify(body), credentials: "same-origin", redirect: "error" });
}

async function report(told, what) {
  if (!told.delivery) return;
  try {
    await post("/push/report", { delivery: told.delivery, receipt: told.receipt, what });
  } catch {
    // Not known then: the card says "sent".
  }
}

addEventListener("notificationclick", (event) => {
  const told = event.notification.data ?? {};
  event.notification.close();
  const token = told.tokens?.[event.action];
  event.waitUntil(Promise.all([report(told, "opened"), token ? decide(told, token) : open(told.url)]));
});

// An answer that did not arrive is not sent later: the person looks at the card again.
async function decide(told, token) {
  let said = { ok: false, says: told.labels?.unreachable ?? "Handrail can't be reached. Nothing was decided." };
  try {
    said = await (await post("/push/answer", { token })).json();
  } catch {
    // As above.
  }
  const title = said.ok ? `${said.says}: ${told.title}` : (told.labels?.undecided ?? "Not decided");
  await registration.showNotification(title, {
    body: said.ok ? "" : said.says,
    tag: told.tag,
    silent: said.ok === true,
    icon: "/static/icons/icon-192.png",
    data: { kind: "said", tag: told.tag, url: told.url },
  });
}

async function open(url) {
  const address = new URL(url ?? "/", location.origin);
  if (address.origin !== location.origin) return;
  for (const client of await clients.matchAll({ type: "window" })) {
    if (new URL(client.url).pathname === address.pathname) return client.focus();
  }
  await clients.openWindow(address.href);
}

"""Web Push as it is, in Debian's Firefox: it subscribes with a push service on loopback, takes what that service passes
on, decrypts it, shows it, and a click on it opens the card."""

import shutil

import pytest

from tests.support.autopush import Autopush
from tests.support.firefox import Firefox
from tests.support.push_service import verify_vapid
from tests.support.waiting import until

TEAM = "firefox"  # nobody else's actions are told about in it
STATE = "return document.querySelector('[data-push-state]').textContent"
SHOWN = """
const registration = await navigator.serviceWorker.ready;
return (await registration.getNotifications({tag: arguments[0]})).map(({title, body}) => ({title, body}));
"""
# Firefox shows notifications in windows of its own where there is no desktop.
CLICK = """
for (const shown of Services.wm.getEnumerator("alert:alert")) {
    const {document} = shown;
    if (document.getElementById("alertTitleLabel")?.value !== arguments[0]) continue;
    document.getElementById("alertBox").click();
    return true;
}
return false;
"""
TABS = """
const windows = [...Services.wm.getEnumerator("navigator:browser")];
return windows.flatMap((one) => one.gBrowser.tabs.map((tab) => tab.linkedBrowser.currentURI.spec));
"""
DELIVERY = """
from approvals.models import Delivery
found = Delivery.objects.get(notice__action_id={!r}, kind="ask", user__username="fay")
print(*(word for word in ("sent", "shown", "opened") if getattr(found, word + "_at")))
"""


@pytest.fixture(scope="module")
def service():
    running = Autopush()
    yield running
    running.close()


@pytest.fixture(scope="module")
def firefox(service, product, require, tmp_path_factory):
    """A Firefox whose person switched notifications on by a click, and off again at the end."""
    if shutil.which("firefox-esr") is None:
        require("browser", "there is no Firefox ESR on this machine")
    insecure = {"dom.push.testing.allowInsecureServerURL": True}
    running = Firefox(tmp_path_factory.mktemp("firefox"), **insecure, **{"dom.push.serverURL": service.url})
    try:
        running.go(product.sign_in_url("fay", "reviewer", TEAM))
        running.click("main button")
        until(lambda: running.run("return location.pathname") == "/")
        running.go(f"{product.desk}/me/notifications/")
        until(lambda: _reads(running, "This device takes no notifications."))
        running.click("[data-push-on]")
        until(lambda: _reads(running, "This device takes notifications."))
        yield running
        running.go(f"{product.desk}/me/notifications/")
        until(lambda: _reads(running, "This device takes notifications."))
        running.click("[data-push-off]")
        until(lambda: _reads(running, "This device takes no notifications."))
    finally:
        running.close()


def _reads(firefox, words: str) -> bool:
    try:
        return firefox.run(STATE) == words
    except AssertionError:  # the page is loading
        return False


@pytest.fixture
def ask(product):
    token = product.agent_token("firefox-agent", TEAM)

    def submit(command):
        body = {"tool": "Bash", "arguments": {"command": command}, "mode": "gate"}
        answer = product.post("/api/v1/actions", token, body)
        assert answer.status == 201, answer.text
        return answer.json

    submit.token = token
    return submit


def _shown(firefox, asked: dict) -> dict:
    return until(lambda: firefox.run(SHOWN, asked["id"]))[0]


def test_a_push_is_decrypted_shown_and_opens_the_card(firefox, service, product, ask):
    asked = ask("git push origin main:in-firefox")
    notification = _shown(firefox, asked)
    assert asked["title"] in notification["title"]
    [passed] = [one for one in service.passed if one.headers["topic"] == asked["id"].replace("-", "")]
    assert asked["title"].encode() not in passed.body
    assert passed.headers["content-encoding"] == "aes128gcm"
    key = product.shell("from approvals.notify import vapid; print(vapid.public_key())")
    assert verify_vapid(passed.headers["authorization"], key)["aud"] == f"http://127.0.0.1:{service.port}"
    until(lambda: [one for one in service.acknowledged if one["code"] == 100])
    until(lambda: product.shell(DELIVERY.format(asked["id"])) == "sent shown")
    with firefox.chrome():
        assert until(lambda: firefox.run(CLICK, notification["title"]))
        until(lambda: f"{product.desk}/actions/{asked['id']}/" in firefox.run(TABS))
    until(lambda: product.shell(DELIVERY.format(asked["id"])) == "sent shown opened")
    product.post(f"/api/v1/actions/{asked['id']}/cancel", ask.token)


def test_a_notification_goes_when_the_agent_takes_its_request_back(firefox, product, ask):
    asked = ask("git push origin main:taken-back")
    assert _shown(firefox, asked)
    product.post(f"/api/v1/actions/{asked['id']}/cancel", ask.token)
    until(lambda: firefox.run(SHOWN, asked["id"]) == [])

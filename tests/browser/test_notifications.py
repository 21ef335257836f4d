"""From the push to the decision in a real Chromium: the service worker gets what the queue sent, shows it, answers.

Chromium subscribes only with its vendor's service. So the subscription's keys are the test's, the push service listens
on loopback, and what it decrypts is handed to the service worker by the DevTools protocol.
"""

import json
import re

import pytest
from playwright.sync_api import expect

from tests.support.push_service import PushService
from tests.support.waiting import until

SUBSCRIBE = """async (found) => {
    const token = JSON.parse(document.body.getAttribute("hx-headers"))["X-CSRFToken"];
    const headers = {"Content-Type": "application/json", "X-CSRFToken": token};
    const body = JSON.stringify(found);
    return (await fetch("/me/notifications/device/", {method: "POST", headers, body})).status;
}"""
SHOWN = """async () => {
    const registration = await navigator.serviceWorker.ready;
    return (await registration.getNotifications()).map(({title, body, tag, actions}) =>
        ({title, body, tag, actions: actions.map(({action}) => action)}));
}"""
# Only a person's click is trusted to keep the worker alive; everything else of the event is as with one.
CLICK = """async ([tag, action]) => {
    NotificationEvent.prototype.waitUntil = function (promise) { self.lastWork = promise; };
    const [notification] = await registration.getNotifications({tag});
    self.dispatchEvent(new NotificationEvent("notificationclick", {notification, action}));
    await self.lastWork.catch(() => {});
}"""


@pytest.fixture
def size():
    return "phone"


@pytest.fixture
def push_service():
    service = PushService()
    yield service
    service.close()


class Phone:
    """A page whose browser takes notifications: `deliver` hands a push to its service worker."""

    def __init__(self, page, product, push_service):
        self.page, self.product, self.service = page, product, push_service
        page.context.grant_permissions(["notifications"], origin=product.desk)
        page.goto(f"{product.desk}/me/notifications/")
        page.evaluate("navigator.serviceWorker.ready.then(() => true)")
        self.devtools = page.context.new_cdp_session(page)
        registrations = []
        heard = "ServiceWorker.workerRegistrationUpdated"
        self.devtools.on(heard, lambda found: registrations.extend(found["registrations"]))
        self.devtools.send("ServiceWorker.enable")
        until(lambda: self._pump() or registrations)
        self.registration = registrations[-1]["registrationId"]

    def switch_on(self):
        assert self.page.evaluate(SUBSCRIBE, self.service.subscription("phone")) == 204
        return self

    def _pump(self):
        self.page.wait_for_timeout(50)

    def arrived(self, asked: dict) -> dict:
        """Return the next payload about an action that arrives; the team's other actions are passed over."""
        until(lambda: any(message.payload["tag"] == asked["id"] for message in self.service.messages))
        about = [message for message in self.service.messages if message.payload["tag"] == asked["id"]]
        self.service.messages.remove(about[0])
        return about[0].payload

    def deliver(self, payload: dict):
        data = json.dumps(payload)
        named = {"origin": self.product.desk, "registrationId": self.registration, "data": data}
        self.devtools.send("ServiceWorker.deliverPushMessage", named)

    def shown(self) -> list[dict]:
        return self.page.evaluate(SHOWN)

    def tap(self, tag: str, action: str):
        self.page.context.service_workers[0].evaluate(CLICK, [tag, action])

    def until_shown(self, test):
        until(lambda: self._pump() or test(self.shown()), within=60)


@pytest.fixture
def phone(person, product, push_service):
    return Phone(person("nora"), product, push_service).switch_on()


def status_of(product, token, action) -> str:
    return product.get(f"/api/v1/actions/{action['id']}", token).json["status"]


def test_from_the_push_to_the_decision_in_one_tap(phone, product, token, ask):
    asked = ask("git push --force-with-lease origin main:notified")
    payload = phone.arrived(asked)
    phone.deliver(payload)
    phone.until_shown(lambda shown: shown)
    [notification] = phone.shown()
    assert notification["tag"] == asked["id"]
    assert notification["title"].endswith(asked["title"])
    assert notification["actions"] == ["deny", "review"]
    phone.tap(asked["id"], "deny")
    until(lambda: status_of(product, token, asked) == "denied", within=60)
    phone.until_shown(lambda shown: [found["title"][:7] for found in shown] == ["Denied:"])
    phone.page.goto(f"{product.desk}/actions/{asked['id']}/")
    phone.page.locator("#card summary", has_text="More").click()
    expect(phone.page.locator("article.card")).to_contain_text("opened")
    closing = phone.arrived(asked)
    assert closing["kind"] == "close"
    phone.deliver(closing)
    phone.until_shown(lambda shown: shown == [])


def test_approve_is_there_for_what_can_be_undone(person, product, token, ask, push_service):
    asked = ask("git push origin main:undoable")
    # What the policy says can be undone runs by itself in this team.
    product.shell(f"from approvals.models import Action; Action.objects.filter(pk={asked['id']!r}).update(undo='yes')")
    # Somebody without an earlier device: a notice that was sent to another one is not sent again to this one.
    phone = Phone(person("nadia"), product, push_service).switch_on()
    payload = phone.arrived(asked)
    assert payload["title"].split(":")[0] == "High, reversible"
    phone.deliver(payload)
    phone.until_shown(lambda shown: shown)
    assert phone.shown()[0]["actions"] == ["deny", "approve"]
    phone.tap(asked["id"], "approve")
    until(lambda: status_of(product, token, asked) == "approved", within=60)


def test_one_notification_for_an_action_replaced_by_the_newest(phone, product, token, ask):
    asked = ask("git push origin main:replaced")
    payload = phone.arrived(asked)
    phone.deliver(payload)
    phone.until_shown(lambda shown: shown)  # two at once may be shown in either order
    phone.deliver(payload | {"title": "The second"})
    phone.until_shown(lambda shown: [found["title"] for found in shown] == ["The second"])
    product.post(f"/api/v1/actions/{asked['id']}/cancel", token)
    phone.deliver(phone.arrived(asked))
    phone.until_shown(lambda shown: shown == [])


def test_an_answer_that_comes_too_late_says_so(phone, product, token, ask):
    asked = ask("git push origin main:late")
    phone.deliver(phone.arrived(asked))
    phone.until_shown(lambda shown: shown)
    product.post(f"/api/v1/actions/{asked['id']}/cancel", token)
    phone.tap(asked["id"], "deny")
    phone.until_shown(lambda shown: [found["title"] for found in shown] == ["Not decided"])
    assert "cancelled" in phone.shown()[0]["body"]


def test_a_push_that_cannot_be_read_says_little(phone):
    named = {"origin": phone.product.desk, "registrationId": phone.registration, "data": "{"}
    phone.devtools.send("ServiceWorker.deliverPushMessage", named)
    phone.until_shown(lambda shown: [found["body"] for found in shown] == ["Something needs approval."])


def test_offline_nothing_is_known_and_nothing_is_kept(person, product, ask, token):
    asked = ask("git push origin main:offline")
    page = person("nora")
    page.goto(f"{product.desk}/actions/{asked['id']}/")
    page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    page.goto(f"{product.desk}/waiting/")
    page.context.set_offline(True)
    page.goto(f"{product.desk}/actions/{asked['id']}/")
    expect(page.locator("h1")).to_have_text("Handrail can't be reached")
    assert asked["title"] not in page.content()
    assert page.evaluate("caches.keys()") == []
    expect(page.get_by_role("link", name="Try again")).to_be_visible()
    page.context.set_offline(False)  # it comes back by itself
    expect(page.locator("h1")).to_have_text(asked["title"])
    product.post(f"/api/v1/actions/{asked['id']}/cancel", token)


def test_pages_are_asked_for_while_the_service_worker_starts(person, product):
    page = person("nora")
    page.goto(f"{product.desk}/me/")
    state = "async () => (await (await navigator.serviceWorker.ready).navigationPreload.getState()).enabled"
    until(lambda: page.evaluate(state))
    with page.expect_request(lambda request: request.url == f"{product.desk}/waiting/") as asked:
        page.goto(f"{product.desk}/waiting/")
    expect(page.locator("h1")).to_be_visible()
    assert asked.value.response().from_service_worker


def test_the_title_counts_and_a_sound_is_off_until_it_is_switched_on(person, product, token, ask):
    page = person("nora")
    page.goto(f"{product.desk}/me/notifications/")
    box = page.locator("[data-sound-switch]")
    expect(box.get_by_role("button", name="Sound off")).to_have_attribute("aria-pressed", "true")
    page.evaluate("document.body.addEventListener('rang', () => { window.rings = (window.rings ?? 0) + 1 })")
    count = page.locator("[data-waiting-count]").first
    waited = int(count.inner_text() or 0)
    first = ask("git push origin main:silent")
    until(lambda: page.wait_for_timeout(50) or int(count.inner_text() or 0) > waited)
    expect(page).to_have_title(re.compile(r"^\(\d+\) Notifications"))
    assert page.evaluate("window.rings ?? 0") == 0
    box.get_by_role("button", name="Sound on").click()
    assert page.evaluate("window.rings") == 1
    second = ask("git push origin main:loud")
    until(lambda: page.wait_for_timeout(50) or page.evaluate("window.rings") >= 2)
    for asked in (first, second):
        product.post(f"/api/v1/actions/{asked['id']}/cancel", token)


def test_the_page_says_what_it_can_on_this_device(person, product):
    page = person("nora")
    page.goto(f"{product.desk}/me/notifications/")
    expect(page.locator("[data-push-state]")).to_have_text("This device takes no notifications.")
    expect(page.get_by_role("button", name="Notify me on this device")).to_be_visible()

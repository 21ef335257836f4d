"""Web Push from end to end: who is told, what arrives, how it is replaced and withdrawn, what is tried again."""

import json
from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone

from approvals.models import Action, Delivery, Notice, PushSubscription
from approvals.notify import vapid
from dashboard.database import clock
from dashboard.models import Event, Membership, Role
from dashboard.text.visible_text import hidden_characters
from tests.approvals.conftest import FORCE, LIST, PUSH
from tests.dashboard.frontend.test_visible import PAYLOADS
from tests.support.push_service import verify_vapid
from workspaces.services.outbound import is_acceptable_endpoint


def test_a_question_reaches_the_device_encrypted_and_signed(device, ask, notify, bob, push_service):
    device(bob)
    action = ask(PUSH)
    [message] = notify()
    told = message.payload
    assert told["title"] == f"High, can't be undone: {action.title}"
    assert "Until " in told["body"]
    assert "pushes to main" in told["body"].lower()
    assert (told["tag"], told["url"]) == (str(action.pk), f"/actions/{action.pk}/")
    assert action.title.encode() not in push_service.encrypted[0]
    headers = message.headers
    assert (headers["content-encoding"], headers["urgency"], headers["topic"]) == ("aes128gcm", "high", action.pk.hex)
    assert 0 < int(headers["ttl"]) <= 30 * 60
    claims = verify_vapid(headers["authorization"], vapid.public_key())
    assert claims["aud"] == push_service.url


def test_a_device_gets_one_notification_for_an_action(device, ask, notify, bob):
    device(bob)
    ask(PUSH)
    assert len(notify()) == 1
    assert notify() == []


def test_nothing_is_sent_for_a_call_that_the_policy_allows(device, ask, notify, bob):
    device(bob)
    ask(LIST)
    assert notify() == []
    assert not Notice.objects.exists()


def test_only_people_who_may_decide_are_notified(device, ask, notify, vera, bob, lena, mallory, push_service):
    for person in (vera, bob, lena, mallory):
        device(person)
    ask(PUSH)
    assert sorted(message.name for message in notify()) == ["bob", "lena"]


def test_a_notification_is_withdrawn_when_somebody_else_decided(device, ask, decide, notify, bob, lena):
    device(bob)
    action = ask(PUSH)
    notify()
    decide(action, "deny", by=lena)
    [message] = notify()
    assert message.payload["kind"] == "close"
    assert message.payload["tag"] == str(action.pk)
    assert message.payload["title"] == f"A-{action.number}: denied by lena"
    assert message.headers["topic"] == action.pk.hex
    assert notify() == []


def test_a_notification_is_withdrawn_when_its_action_expired(device, ask, notify, bob):
    device(bob)
    action = ask(PUSH)
    notify()
    Action.objects.filter(pk=action.pk).update(expires_at=clock.now() - timedelta(seconds=1))
    [message] = notify()
    assert message.payload["kind"] == "close"


def test_a_notification_that_was_never_sent_is_not_withdrawn(device, ask, decide, notify, bob, lena):
    device(bob)
    decide(ask(PUSH), "deny", by=lena)
    assert notify() == []


def test_a_notification_is_replaced_when_the_call_changes(device, ask, decide, notify, bob, lena):
    device(bob)
    action = ask(PUSH)
    [first] = notify()
    decide(action, "edit", by=lena, arguments=FORCE)  # critical now: one person is not enough
    [second] = notify()
    assert second.payload["tag"] == first.payload["tag"]
    assert second.payload["title"].split(",")[0] == "Critical"


def test_a_person_without_the_role_is_notified_no_more(device, ask, notify, bob, team):
    device(bob)
    ask(PUSH)
    notify()
    Membership.objects.filter(user=bob).update(role=Role.VIEWER)
    [message] = notify()
    assert message.payload["kind"] == "close"


def test_many_questions_do_not_flood_a_phone(device, ask, notify, bob):
    device(bob)
    for number in range(14):
        ask({"command": f"git push origin main:b{number}"})
    assert len(notify()) == 10


@pytest.mark.parametrize("status", [404, 410])
def test_a_device_that_is_gone_is_removed(device, ask, notify, bob, push_service, status):
    device(bob)
    push_service.answer("bob", status)
    ask(PUSH)
    notify()
    assert not PushSubscription.objects.exists()
    assert [row.problem for row in Delivery.objects.all()] == ["The device no longer takes notifications."]


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_temporary_failure_is_tried_again(device, ask, notify, bob, push_service, status):
    device(bob)
    push_service.answer("bob", status)
    ask(PUSH)
    assert notify() == []
    row = Delivery.objects.get()
    assert (row.failures, row.sent_at, row.problem) == (1, None, f"The push service answered {status}.")
    assert clock.now() < row.next_try_at < clock.now() + timedelta(seconds=15)
    assert PushSubscription.objects.get().failures == 1
    assert notify() == []
    Delivery.objects.update(next_try_at=clock.now())
    assert len(notify()) == 1
    assert PushSubscription.objects.get().failures == 0


def test_a_refused_delivery_is_not_tried_again(device, ask, notify, bob, push_service):
    device(bob)
    push_service.answer("bob", 403)
    ask(PUSH)
    notify()
    assert Delivery.objects.get().next_try_at is None


def test_a_service_that_does_not_answer_is_tried_again(device, ask, notify, bob, push_service):
    device(bob)
    PushSubscription.objects.update(endpoint="http://127.0.0.1:1/bob")
    ask(PUSH)
    notify()
    row = Delivery.objects.get()
    assert row.problem == "The push service did not answer (ConnectionError)."
    assert row.next_try_at is not None


def test_nothing_is_sent_to_private_addresses(device, ask, notify, bob, settings):
    device(bob)
    settings.HANDRAIL_NOTIFY_NETWORKS = ()
    ask(PUSH)
    assert notify() == []
    row = Delivery.objects.get()
    assert row.problem == "The push service's name leads to a private or special address."
    assert row.next_try_at is None


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://push.example.org/x",
        "https://127.0.0.1/x",
        "https://10.0.0.7/x",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/x",
        "https://[::ffff:10.0.0.1]/x",
        "https://localhost/x",
        "https://intranet/x",
        "https://user:pass@push.example.org/x",
        "ftp://push.example.org/x",
        "https://push.example.org:99999/x",
        "https://push.example.org/" + "x" * 2000,
        "",
    ],
)
def test_endpoints_are_public_and_https(browser_of, bob, endpoint, push_service, settings):
    settings.HANDRAIL_NOTIFY_NETWORKS = ()
    found = push_service.subscription("x") | {"endpoint": endpoint}
    response = browser_of(bob).post("/me/notifications/device/", json.dumps(found), content_type="application/json")
    assert response.status_code == 422
    assert not PushSubscription.objects.exists()


def test_a_vendors_endpoint_is_taken():
    assert is_acceptable_endpoint("https://updates.push.services.mozilla.com/wpush/v2/abc")
    assert is_acceptable_endpoint("https://fcm.googleapis.com/fcm/send/abc:def")


def test_keys_that_are_none_are_refused(browser_of, bob, push_service):
    found = push_service.subscription("x")
    for keys in ({}, {"p256dh": "AAAA", "auth": found["keys"]["auth"]}, found["keys"] | {"auth": "AAAA"}, None, 7):
        body = json.dumps(found | {"keys": keys})
        response = browser_of(bob).post("/me/notifications/device/", body, content_type="application/json")
        assert response.status_code == 422, keys


def test_a_notification_after_sign_out_says_only_that_something_waits(device, ask, notify, bob):
    device(bob)
    Session.objects.update(expire_date=timezone.now() - timedelta(days=1))
    ask(PUSH)
    [message] = notify()
    assert message.payload["title"] == "Needs approval"
    assert "push" not in message.payload["body"]
    assert message.payload["tokens"] == {}


def test_a_new_password_ends_the_details_too(device, ask, notify, bob):
    device(bob)
    bob.set_password("a new and long one")
    bob.save()
    ask(PUSH)
    [message] = notify()
    assert message.payload["title"] == "Needs approval"


def test_a_new_device_is_in_the_log_once(device, bob, push_service):
    client = device(bob)
    found = {"endpoint": PushSubscription.objects.get().endpoint, "keys": push_service.subscription("bob")["keys"]}
    client.post("/me/notifications/device/", json.dumps(found), content_type="application/json")
    assert Event.objects.filter(verb="person.device_added", actor_label="bob").count() == 1


def test_signing_out_removes_the_device(device, bob):
    client = device(bob)
    client.post("/accounts/logout/")
    assert not PushSubscription.objects.exists()


def test_hidden_characters_are_named(device, ask, notify, bob, agent):
    agent.name = "cl\u202eaude"
    agent.save()
    device(bob)
    ask(PUSH)
    [message] = notify()
    assert "\u202e" not in message.payload["body"]
    assert "U+202E" in message.payload["body"]


@pytest.mark.parametrize("text", [text for text in PAYLOADS if isinstance(text, str)])
def test_a_hostile_title_is_one_line_without_hidden_characters(device, ask, notify, bob, text):
    device(bob)
    action = ask({"charge": "ch_1"}, tool="mcp__shop__say")
    Action.objects.filter(pk=action.pk).update(title=text[:200].replace("\0", ""))
    [message] = notify()
    said = message.payload["title"], message.payload["body"].replace("\n", "", 1)
    assert [hidden_characters(words) for words in said] == [[], []]
    assert not any("\n" in words for words in said)


def test_delivery_is_recorded_and_shown(device, ask, notify, report, bob, browser_of, alice):
    client = device(bob)
    action = ask(PUSH)
    [message] = notify()
    assert Delivery.objects.get().sent_at is not None
    assert report(client, message.payload, "shown") == 204
    assert Notice.objects.get().seen_at is None
    assert report(client, message.payload, "opened") == 204
    row = Delivery.objects.get()
    assert row.shown_at
    assert row.opened_at
    assert Notice.objects.get().seen_at
    page = browser_of(alice).get(f"/actions/{action.pk}/").content.decode()
    words = " ".join(page.split())
    assert "bob by Browser: sent <time" in words
    assert ", opened <time" in words


def test_a_wrong_receipt_records_nothing(device, ask, notify, report, bob):
    client = device(bob)
    ask(PUSH)
    [message] = notify()
    assert report(client, message.payload, "shown", receipt="x") == 404
    assert report(client, message.payload, "shown", delivery="x") == 404
    assert report(client, message.payload, "decided") == 404
    assert Delivery.objects.get().shown_at is None


def test_opening_the_card_counts_as_seen(device, ask, notify, bob):
    client = device(bob)
    action = ask(PUSH)
    notify()
    client.get(f"/actions/{action.pk}/", headers={"X-Handrail-Refresh": "hidden"})
    assert Notice.objects.get().seen_at is None
    client.get(f"/actions/{action.pk}/")
    assert Notice.objects.get().seen_at is not None

"""Channels: for what nobody has seen, with team, number and link; their URLs are encrypted and lead nowhere private."""

import json
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from approvals.models import Action, Channel, Delivery, Notice, NotificationSettings, PushToken
from approvals.notify import direct, notices
from dashboard.database import clock
from dashboard.models import Event
from tests.approvals.conftest import FORCE, PUSH
from tests.support.waking import wakes  # noqa: F401 - a fixture
from workspaces.secrets import rotation

PAGE = "/me/notifications/"


@pytest.fixture
def ntfy(push_service):
    """An ntfy on loopback: `messages` holds the JSON that it got."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.server.messages.append(json.loads(body))
            self.send_response(self.server.status)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.messages, server.status = [], 200
    server.channel = f"ntfy://127.0.0.1:{server.server_port}/a-secret-topic"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def channel(ntfy, browser_of):
    """`channel(bob)`: the person adds the ntfy on the page."""

    def add(user, **more):
        response = browser_of(user).post(f"{PAGE}channels/", {"url": ntfy.channel} | more)
        assert response.status_code == 302, response.content.decode()
        return Channel.objects.get(user=user)

    return add


def unseen_for(minutes):
    Notice.objects.update(created_at=clock.now() - timedelta(minutes=minutes))


def test_a_message_has_team_number_and_link_without_the_command(channel, ask, notify, ntfy, bob):
    channel(bob)
    action = ask(PUSH)
    notify()
    [sent] = ntfy.messages
    assert sent["title"] == f"Payments: A-{action.number} needs approval"
    assert sent["message"].endswith(f"/actions/{action.pk}/")
    assert "push" not in json.dumps(sent).replace("handrail", "").lower()


@pytest.mark.parametrize("add", [notices.send_test, lambda user, now: direct.queue_message(user, "Hello.")])
def test_whatever_is_to_be_sent_wakes_the_queue(channel, wakes, bob, add):  # noqa: F811
    channel(bob)
    before = Event.objects.count()
    assert wakes(add, bob, clock.now()) is True
    assert (Delivery.objects.count(), Event.objects.count()) == (1, before)


def test_the_title_goes_along_only_by_choice(channel, ask, notify, ntfy, bob):
    channel(bob, with_title="on")
    action = ask(PUSH)
    notify()
    assert action.title in ntfy.messages[0]["message"]


def test_no_channel_ever_carries_an_answer(channel, device, ask, notify, ntfy, bob):
    device(bob)
    channel(bob, with_title="on")
    action = ask(PUSH)
    Action.objects.filter(pk=action.pk).update(undo="yes")
    [message] = notify()
    unseen_for(6)
    notify()
    text = json.dumps(ntfy.messages)
    assert len(ntfy.messages) == 1
    assert PushToken.objects.count() == 2
    assert not any(token in text for token in message.payload["tokens"].values())


def test_with_a_device_it_waits_until_nobody_has_seen_it(channel, device, ask, notify, ntfy, bob):
    device(bob)
    channel(bob)
    ask(PUSH)
    notify()
    unseen_for(4)
    notify()
    assert ntfy.messages == []
    unseen_for(6)
    notify()
    notify()
    assert len(ntfy.messages) == 1


def test_a_seen_action_is_not_repeated(channel, device, ask, notify, report, ntfy, bob, lena):
    device(bob)
    channel(bob)
    client = device(lena)
    ask(PUSH)
    seen = next(message for message in notify() if message.name == "lena")
    report(client, seen.payload, "opened")
    unseen_for(6)
    notify()
    assert ntfy.messages == []


def test_a_decided_action_is_not_repeated(channel, device, ask, decide, notify, ntfy, bob, lena):
    device(bob)
    channel(bob)
    action = ask(PUSH)
    notify()
    unseen_for(6)
    decide(action, "deny", by=lena)
    notify()
    assert ntfy.messages == []


def test_a_channel_that_fails_is_tried_again(channel, ask, notify, ntfy, bob):
    channel(bob)
    ntfy.status = 500
    ask(PUSH)
    notify()
    row = Delivery.objects.get()
    assert row.problem == "The service could not be reached, or refused the message."
    assert (row.sent_at, row.next_try_at is None) == (None, False)
    assert Channel.objects.get().failures == 1
    ntfy.status = 200
    Delivery.objects.update(next_try_at=clock.now())
    notify()
    assert Delivery.objects.get().sent_at is not None
    assert Channel.objects.get().failures == 0


def test_nothing_goes_to_private_addresses(channel, ask, notify, ntfy, bob, settings):
    channel(bob)
    settings.HANDRAIL_NOTIFY_NETWORKS = ()
    ask(PUSH)
    notify()
    assert ntfy.messages == []
    assert Delivery.objects.get().sent_at is None


@pytest.mark.parametrize(
    "url",
    [
        "json://127.0.0.1/",
        "syslog://",
        "dbus://",
        "file:///etc/passwd",
        "exec://x",
        "https://hooks.slack.com/services/a/b/c",
        "ntfys://ntfy.sh/topic?attach=/etc/passwd",
        "mailtos://u:p@example.org?pgpkey=/etc/passwd",
        "ntfys://ntfy.sh/topic?verify=no",
        "ntfys://",
        "slack://",
        "ntfys://[::1/topic",
        "nonsense",
        "x" * 600,
    ],
)
def test_other_urls_are_not_taken(browser_of, bob, url):
    response = browser_of(bob).post(f"{PAGE}channels/", {"url": url})
    assert response.status_code == 200
    assert 'role="alert"' in response.content.decode()
    assert not Channel.objects.exists()


def test_its_url_is_encrypted_and_never_shown_again(channel, ntfy, browser_of, bob, ask, notify, alice):
    row = channel(bob)
    assert b"a-secret-topic" not in bytes(row.value)
    action = ask(PUSH)
    notify()
    for address, person in ((PAGE, bob), (f"/actions/{action.pk}/", alice)):
        assert "a-secret-topic" not in browser_of(person).get(address).content.decode()


def test_rotation_of_the_keys_takes_channels_along(channel, ask, notify, ntfy, bob):
    row = channel(bob)
    before = bytes(row.value)
    rotation.rotate(say=lambda words: None)
    row.refresh_from_db()
    assert bytes(row.value) != before
    ask(PUSH)
    notify()
    assert len(ntfy.messages) == 1


def test_a_channel_of_somebody_else_is_not_removed(channel, browser_of, bob, lena):
    row = channel(bob)
    assert browser_of(lena).post(f"{PAGE}channels/{row.pk}/remove/").status_code == 404
    assert browser_of(bob).post(f"{PAGE}channels/{row.pk}/remove/").status_code == 302
    assert not Channel.objects.exists()


def test_a_digest_comes_once_a_day_in_the_persons_zone(channel, notify, ntfy, ask, decide, bob, lena, monkeypatch):
    channel(bob)
    NotificationSettings.objects.create(user=bob, digest_at="08:00", zone="Asia/Tokyo")
    decide(ask(FORCE), "deny", by=lena)
    at = clock.now().replace(hour=22, minute=30)  # 07:30 in Tokyo
    notices.reconcile(at)
    assert not Delivery.objects.filter(kind="digest").exists()
    notices.reconcile(at + timedelta(minutes=31))
    notices.reconcile(at + timedelta(minutes=32))
    assert Delivery.objects.filter(kind="digest").count() == 1
    monkeypatch.setattr(clock, "now", lambda: at + timedelta(minutes=33))
    Delivery.objects.update(next_try_at=clock.now())
    notify()
    digest = next(message for message in ntfy.messages if message["title"] == "Handrail this morning")
    assert "Payments: 0 need approval." in digest["message"]
    assert "1 denied" in digest["message"]
    assert "force" not in digest["message"]
    notices.reconcile(at + timedelta(days=1, minutes=31))
    assert Delivery.objects.filter(kind="digest").count() == 1  # nothing happened in that day


def test_a_digest_is_not_sent_late(channel, bob):
    channel(bob)
    NotificationSettings.objects.create(user=bob, digest_at="08:00", zone="UTC")
    notices.reconcile(clock.now().replace(hour=11, minute=1))
    assert not Delivery.objects.exists()

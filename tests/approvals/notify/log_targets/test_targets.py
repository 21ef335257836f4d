"""The log leaves as it happens: signed, in order, without a gap, again after a failure; and alerts reach the admins."""

import hashlib
import hmac
import json
from datetime import timedelta

import pytest
from standardwebhooks.webhooks import Webhook as StandardWebhook
from standardwebhooks.webhooks import WebhookVerificationError

from approvals import tasks
from approvals.models import Channel, Delivery, LogTarget
from approvals.notify.log_targets import alerts, sending, targets
from approvals.notify.sending import _content
from dashboard.database import clock
from dashboard.keys import keyring
from dashboard.models import Actor, Event, Team
from dashboard.processes.queue import Queue
from dashboard.workers import outbox
from tests.support.aap_receiver import Dripping
from tests.support.receivers import Syslog, Webhook
from workspaces.egress.addresses import read_networks
from workspaces.secrets import rotation

pytestmark = pytest.mark.django_db
BY = Actor.system("tests")


@pytest.fixture(autouse=True)
def on_loopback(settings, tmp_path):
    settings.HANDRAIL_NOTIFY_NETWORKS = read_networks("127.0.0.1/32")
    settings.HANDRAIL_EXPORTS = tmp_path


@pytest.fixture
def webhook():
    receiving = Webhook()
    yield receiving
    receiving.close()


@pytest.fixture
def syslog():
    receiving = Syslog()
    yield receiving
    receiving.close()


def happen(team, *verbs, **data):
    for verb in verbs:
        Event.objects.record(team, actor=BY, verb=verb, subject=team, data=data)


def seqs(webhook) -> list[list[int]]:
    return [[event["seq"] for event in json.loads(body)["events"]] for _, body in webhook.got]


def folder_seqs(team) -> list[int]:
    files = sorted(targets.folder_of(team).glob("*.jsonl"))
    return [json.loads(line)["seq"] for path in files for line in path.read_text().splitlines()]


@pytest.mark.parametrize("fails_first", [False, True])
def test_the_library_of_standard_webhooks_verifies_it(team, webhook, fails_first):
    _, key = targets.add(team, "webhook", webhook.url, by=BY)
    happen(team, "one.more", title="Öl")
    webhook.status = 500 if fails_first else 200
    tasks.send_log()
    if fails_first:
        webhook.status = 200
        try_again()
        tasks.send_log()
    read = [StandardWebhook(key).verify(body, dict(headers)) for headers, body in webhook.got]
    assert [event["verb"] for event in read[-1]["events"]] == ["log.target_added", "one.more"]
    assert len({headers["webhook-id"] for headers, _ in webhook.got}) == 1
    with pytest.raises(WebhookVerificationError):
        StandardWebhook(key).verify(webhook.got[0][1] + b" ", dict(webhook.got[0][0]))


def try_again():
    LogTarget.objects.update(next_try_at=clock.now() - timedelta(seconds=1))


def test_a_webhook_gets_what_happens_signed_with_its_key(team, webhook):
    happen(team, "before.it")
    target, key = targets.add(team, "webhook", webhook.url, by=BY)
    happen(team, "one.more", title="Öl")
    assert tasks.send_log() == 2  # its own addition is an event as well
    [(headers, body)] = webhook.got
    expected = hmac.new(key.encode(), headers["Handrail-Timestamp"].encode() + b"." + body, hashlib.sha256).hexdigest()
    assert headers["Handrail-Signature"] == f"sha256={expected}"
    sent = json.loads(body)
    assert (sent["team"], [event["verb"] for event in sent["events"]]) == ("payments", ["log.target_added", "one.more"])
    assert sent["events"] == [event.as_export() for event in Event.objects.filter(team=team, seq__gt=1)]
    target.refresh_from_db()
    assert (target.cursor, target.failures, target.problem) == (3, 0, "")
    assert tasks.send_log() == 0


def test_after_failures_it_goes_on_where_it_stopped(team, webhook):
    target, _ = targets.add(team, "webhook", webhook.url, by=BY)
    webhook.status = 500
    happen(team, "a.a")
    assert tasks.send_log() == 0
    target.refresh_from_db()
    assert (target.cursor, target.failures, target.problem) == (0, 1, "It answered 500.")
    assert target.next_try_at > clock.now()
    assert tasks.send_log() == 0  # not before its time
    webhook.status = 204
    happen(team, "b.b")
    try_again()
    assert tasks.send_log() == 3
    assert seqs(webhook) == [[1, 2], [1, 2, 3]]


def test_nothing_is_left_out_of_many(team, webhook, monkeypatch):
    monkeypatch.setattr(sending, "BATCH", 7)
    targets.add(team, "webhook", webhook.url, from_start=True, by=BY)
    happen(team, *["n.n"] * 29)
    assert tasks.send_log() == 30
    assert [seq for batch in seqs(webhook) for seq in batch] == list(range(1, 31))


def test_a_target_that_is_switched_on_again_gets_what_it_missed(team, webhook):
    target, _ = targets.add(team, "webhook", webhook.url, by=BY)
    targets.switch(target, False, by=BY)
    happen(team, "a.a")
    assert tasks.send_log() == 0
    targets.switch(target, True, by=BY)
    tasks.send_log()
    assert seqs(webhook) == [[1, 2, 3, 4]]


def test_a_log_target_gets_no_event_of_another_team(team, other_team, webhook):
    targets.add(team, "webhook", webhook.url, by=BY)
    happen(other_team, "theirs.only")
    tasks.send_log()
    assert b"theirs" not in webhook.got[0][1]


def test_a_target_that_somebody_else_sends_to_is_left_alone(team, webhook):
    targets.add(team, "webhook", webhook.url, by=BY)
    sender = sending.LogEvents(LogTarget.objects.to_systems())
    [claimed] = outbox.claim(sender, clock.now())
    assert (outbox.claim(sender, clock.now()), tasks.send_log(), webhook.got) == ([], 0, [])
    assert outbox.record(sender, *claimed, None, clock.now()) == 1


def test_a_process_that_read_the_target_before_another_sent_sends_nothing(team, webhook, monkeypatch):
    target, _ = targets.add(team, "webhook", webhook.url, by=BY)
    sender = sending.LogEvents(LogTarget.objects.to_systems())
    stale = LogTarget.objects.get(pk=target.pk)
    assert tasks.send_log() == 1
    monkeypatch.setattr(sending.LogEvents, "due", lambda self, now: [stale])
    assert outbox.claim(sender, clock.now()) == []
    target.refresh_from_db()
    assert (target.cursor, target.next_try_at, len(webhook.got)) == (1, None, 1)


def test_syslog_gets_rfc_5424_messages(team, syslog):
    targets.add(team, "syslog", syslog.address, by=BY)
    happen(team, "a.a")
    assert tasks.send_log() == 2
    first, second = syslog.messages()
    assert first.startswith(b"<109>1 20")
    assert second.split(b" ")[3:7] == [b"handrail", b"2", b"a.a", b"-"]
    assert json.loads(second.split(b"\xef\xbb\xbf")[1])["verb"] == "a.a"


def test_an_unreachable_target_says_so(team, syslog):
    target, _ = targets.add(team, "syslog", "tcp://127.0.0.1:9", by=BY)
    tasks.send_log()
    target.refresh_from_db()
    assert (target.failures, "refused" in target.problem) == (1, True)


def test_a_folder_gets_lines_that_an_export_has_too(team):
    targets.add(team, "folder", "", from_start=True, by=BY)
    happen(team, "a.a", "b.b")
    tasks.send_log()
    [path] = targets.folder_of(team).glob("*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [event.as_export() for event in Event.objects.filter(team=team)]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("whole", [0, 1, 2, 40])
@pytest.mark.parametrize("unfinished", ["", "{", '{"seq": 99, "long": "' + "x" * 300])
@pytest.mark.parametrize("length", [0, 7, 900])
def test_only_the_end_of_a_days_file_is_read(tmp_path, monkeypatch, whole, unfinished, length):
    monkeypatch.setattr(sending, "TAIL_BYTES", 16)
    path = tmp_path / "day.jsonl"
    lines = "".join(f'{{"seq": {number}, "data": "{"y" * length}"}}\n' for number in range(1, whole + 1))
    path.write_text(lines + unfinished)
    assert sending._mend_last_line(path) == whole
    assert path.read_text() == lines


def test_a_folder_has_each_event_once_after_a_kill(team):
    target, _ = targets.add(team, "folder", "", from_start=True, by=BY)
    happen(team, "a.a", "b.b")
    tasks.send_log()
    [path] = targets.folder_of(team).glob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-9])  # killed while it wrote the last line
    LogTarget.objects.filter(pk=target.pk).update(cursor=1)  # and before the cursor moved
    happen(team, "c.c")
    tasks.send_log()
    assert folder_seqs(team) == [1, 2, 3, 4]


# Alerts --------------------------------------------------------------------------------------------------------------


def test_alerts_alone_are_sent_and_the_cursor_passes_the_rest(team, webhook):
    target, _ = targets.add(team, "webhook", webhook.url, only_alerts=True, by=BY)
    happen(team, "policy.saved", "action.allowed", "store.damaged")
    happen(team, "person.role_changed", role="lead")
    happen(team, "person.role_changed", role="admin")
    tasks.send_log()
    sent = [(event["verb"], event["data"].get("role")) for event in json.loads(webhook.got[0][1])["events"]]
    expected = [("log.target_added", None), ("policy.saved", None), ("store.damaged", None)]
    assert sent == [*expected, ("person.role_changed", "admin")]
    target.refresh_from_db()
    assert target.cursor == Team.objects.get(pk=team.pk).event_seq


def test_admins_are_notified_and_nobody_else(team, alice, bob, lena):
    for person in (alice, bob, lena):
        Channel.objects.create(user=person, value=b"", label="ntfy", created_at=clock.now())
    targets.add(team, "admins", "", by=BY)
    happen(team, "store.damaged", "action.allowed")
    tasks.tell_admins()
    found = Delivery.objects.filter(kind="alert").order_by("created_at", "text")
    assert {delivery.user for delivery in found} == {alice}
    text = next(one.text for one in found if "damage" in one.text)
    assert text.startswith("Payments: Found damage in the snapshot store (tests, ")
    assert _content(found[0], None, clock.now()) == ("Handrail alert", found[0].text)


def test_an_alert_has_no_command_and_no_path(team):
    happen(team, "policy.saved", title="rm -rf /srv", path="/srv")
    assert "srv" not in alerts.sentence(Event.objects.get(), team)


# Adding --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "address"),
    [
        ("webhook", "http://example.org/log"),
        ("webhook", "https://127.0.0.2/log"),
        ("webhook", "https://localhost/log"),
        ("webhook", ""),
        ("syslog", "udp://logs.example.org:514"),
        ("syslog", "tls://logs.example.org"),
        ("syslog", "tcp://10.0.0.1:514"),
        ("syslog", "tls://user@/x:1"),
        ("bucket", "s3://x"),
    ],
)
def test_other_addresses_are_refused_at_the_field(alice, team, browser_of, kind, address):
    wanted = {"team": "payments", "kind": kind, "address": address}
    text = browser_of(alice).post("/log/targets/add/", wanted).content.decode()
    field = "kind" if kind == "bucket" else "address"
    assert (f'id="{field}-payments_error"' in text, LogTarget.objects.count()) == (True, 0)


def test_an_admin_adds_one_and_sees_the_key_once(alice, team, webhook, browser_of):
    client = browser_of(alice)
    client.post("/log/targets/add/", {"team": "payments", "kind": "webhook", "address": webhook.url})
    target = LogTarget.objects.get()
    key = keyring.load().decrypt(bytes(target.value), targets.associated_data(target)).decode()
    pages = [client.get("/log/targets/").content.decode() for _ in range(2)]
    assert [key in page for page in pages] == [True, False]
    event = Event.objects.get()
    assert (event.verb, event.actor_label, key in json.dumps(event.data)) == ("log.target_added", "alice", False)


def test_the_key_survives_a_rotation_of_keys(team, webhook):
    target, key = targets.add(team, "webhook", webhook.url, by=BY)
    rotation.rotate(say=lambda words: None)
    target.refresh_from_db()
    assert keyring.load().decrypt(bytes(target.value), targets.associated_data(target)).decode() == key


def test_only_an_admin_of_the_team_has_to_do_with_targets(alice, lena, mallory, team, browser_of):
    target, _ = targets.add(team, "folder", "", by=BY)
    for person, status in ((lena, 403), (mallory, 404)):
        client = browser_of(person)
        added = client.post("/log/targets/add/", {"team": "payments", "kind": "admins"})
        changed = [client.post(f"/log/targets/{target.pk}/{verb}/") for verb in ("switch", "remove")]
        assert [answer.status_code for answer in (added, *changed)] == [status] * 3
    browser_of(alice).post(f"/log/targets/{target.pk}/remove/")
    assert not LogTarget.objects.exists()


def test_the_queue_sends_when_something_happened(team):
    queue = Queue()
    assert queue.queue_due() == []
    targets.add(team, "folder", "", by=BY)
    assert queue.queue_due() == ["approvals.tasks.send_log"]
    tasks.send_log()
    assert queue.queue_due() == []


def test_a_target_that_answers_byte_by_byte_is_left_after_a_while(team, webhook, monkeypatch):
    monkeypatch.setattr(outbox, "DEADLINE", 1)
    with Dripping() as dripping:
        slow, _ = targets.add(team, "webhook", dripping.url, by=BY)
        targets.add(team, "webhook", webhook.url, by=BY)
        assert tasks.send_log() == 1
        slow.refresh_from_db()
        assert (slow.failures, slow.problem) == (1, "It did not answer within 1 s.")
    assert len(webhook.got) == 1


def test_a_target_that_hangs_keeps_no_alert_from_the_admins(team, alice, monkeypatch):
    targets.add(team, "folder", "", by=BY)
    targets.add(team, "admins", "", by=BY)
    monkeypatch.setitem(sending.WAYS, "folder", None)  # whoever sends to it fails
    assert set(Queue().queue_due()) == {"approvals.tasks.tell_admins", "approvals.tasks.send_log"}
    tasks.tell_admins()
    assert Queue().queue_due() == ["approvals.tasks.send_log"]

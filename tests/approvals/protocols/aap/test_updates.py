"""PATCH /v1/instances/ID: another name, another receiver or none, and what becomes of what is not told yet."""

import json
import uuid
from datetime import timedelta

import pytest

from approvals import tasks
from approvals.models import AapInstance, AapInstanceUpdate, AapRequest
from approvals.protocols.aap import attempts, requests, sending, updates, webhooks
from approvals.protocols.aap.instances import AapCaller
from dashboard.database import clock
from dashboard.models import Actor, Event, Token
from dashboard.people.access import caller_by_token
from dashboard.people.tokens import find_token, make_token, revoke
from dashboard.workers import outbox
from tests.approvals.protocols.aap.test_sending import answer, error, is_due
from tests.support.aap_receiver import AapReceiver
from workspaces.secrets import rotation

pytestmark = pytest.mark.django_db


@pytest.fixture
def change(api, agent_token, instance):
    """`change(**fields)`: what changing the instance answers."""

    def patch(key="change", token=agent_token, pk=None, **fields):
        return api(token).patch(
            f"/aap/v1/instances/{pk or instance.pk}",
            json.dumps(fields),
            content_type="application/json",
            headers={"Idempotency-Key": key},
        )

    return patch


@pytest.fixture
def other():
    """A second receiver."""
    listening = AapReceiver()
    listening.receiver.secret = "whsec_" + "B" * 42 + "A="
    listening.receiver.registration_id = str(uuid.uuid4())
    yield listening
    listening.close()


def delivery(receiver, **changed) -> dict:
    own = {"registration_id": receiver.receiver.registration_id, "signing_secret": receiver.receiver.secret}
    return {"type": "webhook", "url": receiver.url} | own | changed


def row(instance) -> dict:
    fields = ("name", "url", "registration_id", "value")
    return AapInstance.objects.filter(pk=instance.pk).values(*fields).get()


def test_a_name_alone_needs_no_receiver(change, instance, receiver):
    before = row(instance)
    made = change(instance_name="desktop")
    assert (made.status_code, made.json()["name"]) == (200, "desktop")
    assert made.json().keys() == {"id", "name", "delivery"}
    assert (row(instance), len(receiver.got)) == (before | {"name": "desktop"}, 1)


def test_a_new_receiver_is_verified_and_told_what_waits(change, ask, instance, bob, receiver, other):
    waiting = ask()
    answer(waiting, bob)
    receiver.answers = [(500, {})]
    assert tasks.send_webhooks() == 0
    made = change(delivery=delivery(other), instance_name="moved")
    assert made.status_code == 200, made.content
    shown = {"type": "webhook", "url": other.url, "registration_id": other.receiver.registration_id}
    assert made.json() == {"id": str(instance.pk), "name": "moved", "delivery": shown}
    [(_, _, asked)] = other.got
    assert (asked["type"], asked["instance_id"]) == ("webhook.verification", str(instance.pk))
    is_due_soon(instance)
    assert tasks.send_webhooks() == 1
    assert (other.resolved(), receiver.resolved()) == ([(204, str(waiting.pk))], [(500, str(waiting.pk))])
    assert other.got[-1][2] == receiver.got[-1][2]
    rotation.rotate(say=lambda words: None)
    later = ask("git push later")
    answer(later, bob)
    assert tasks.send_webhooks() == 1
    assert other.resolved()[1:] == [(204, str(later.pk))]


def is_due_soon(instance):
    """What failed before is tried within seconds; here at once."""
    instance.refresh_from_db()
    assert instance.next_try_at <= clock.now() + updates.IN_FLIGHT
    AapInstance.objects.update(next_try_at=clock.now())


def test_what_failed_for_hours_need_not_wait_for_hours_more(change, ask, instance, bob, other):
    waiting = ask()
    answer(waiting, bob)
    late = clock.now() + timedelta(hours=3)
    AapInstance.objects.update(next_try_at=late, failures=9, problem="It answered 500.")
    AapRequest.objects.update(notify_at=late, tries=9)
    assert change(delivery=delivery(other)).status_code == 200
    is_due_soon(instance)
    assert (instance.failures, instance.problem, tasks.send_webhooks()) == (0, "", 1)


def test_an_attempt_at_the_old_receiver_is_not_doubled(change, ask, bob, other):
    answer(ask(), bob)
    [claimed] = outbox.claim(sending.Webhooks(), clock.now())  # and while it is sent
    assert change(delivery=delivery(other)).status_code == 200
    assert (is_due(), tasks.send_webhooks()) == (False, 0)
    assert outbox.record(sending.Webhooks(), *claimed, None, clock.now())
    AapInstance.objects.update(next_try_at=None)
    assert (is_due(), other.resolved()) == (False, [])


@pytest.mark.parametrize("answers", [[(204, {})], [(500, {})], [(302, {"Location": "/"})], [(200, {})]])
def test_all_stays_if_the_new_receiver_does_not_answer(change, ask, instance, bob, receiver, other, answers):
    before, other.answers = row(instance), answers
    made = change(delivery=delivery(other), instance_name="moved")
    assert error(made) == (422, "webhook_verification_failed")
    assert (row(instance), Event.objects.filter(verb="aap.instance_changed").count()) == (before, 0)
    waiting = ask()
    answer(waiting, bob)
    assert tasks.send_webhooks() == 1
    assert receiver.resolved() == [(204, str(waiting.pk))]
    assert change(delivery=delivery(other), instance_name="moved").status_code == 200  # the same key, once it answers


def test_without_a_receiver_nobody_is_told_and_a_new_one_hears_of_what_is_undecided(
    change, ask, instance, bob, receiver, other
):
    ended, open_one = ask("git push one"), ask("git push two")
    answer(ended, bob)
    made = change(key="off", delivery=None)
    assert (made.status_code, made.json().keys()) == (200, {"id", "name"})
    assert (row(instance)["value"], is_due(), tasks.send_webhooks()) == (None, False, 0)
    meanwhile = ask("git push three")
    unheard = ask("git push four")
    answer(unheard, bob)
    assert change(key="on", delivery=delivery(other)).status_code == 200
    for request in (open_one, meanwhile):
        answer(request, bob)
    assert (tasks.send_webhooks(), tasks.send_webhooks()) == (2, 0)
    assert {pk for _, pk in other.resolved()} == {str(open_one.pk), str(meanwhile.pk)}
    assert receiver.resolved() == []


def test_the_same_again_is_answered_as_then_and_overwrites_nothing(change, instance, other):
    first = change(key="one", delivery=delivery(other), instance_name="one")
    assert change(key="two", instance_name="two").status_code == 200
    again = change(key="one", delivery=delivery(other), instance_name="one")
    assert (again.status_code, again.json()) == (200, first.json())
    assert (row(instance)["name"], len(other.got)) == ("two", 1)
    assert error(change(key="one", instance_name="three")) == (409, "idempotency_conflict")
    AapInstanceUpdate.objects.filter(key="one").update(ready_at=clock.now() - timedelta(days=7))
    change(key="three", instance_name="three")
    assert change(key="one", delivery=delivery(other), instance_name="one").json() == first.json()
    AapInstanceUpdate.objects.filter(key="one").update(
        ready_at=clock.now() - attempts.KEEP_SUCCEEDED - timedelta(seconds=1)
    )
    change(key="four", instance_name="four")
    assert set(AapInstanceUpdate.objects.values_list("key", flat=True)) == {"two", "three", "four"}


def test_an_interrupted_message_is_sent_again(change, instance, other):
    assert change(delivery=delivery(other)).status_code == 200
    AapInstanceUpdate.objects.update(ready_at=None, tried_at=clock.now() - attempts.CUT_OFF)
    assert change(delivery=delivery(other)).status_code == 200
    assert len(other.got) == 2


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, "invalid_request"),
        ({"name": "desktop"}, "invalid_request"),
        ({"instance_name": ""}, "invalid_request"),
        ({"instance_name": None}, "invalid_request"),
        ({"instance_name": "x" * 121}, "invalid_request"),
        ({"delivery": {}}, "invalid_request"),
        ({"delivery": {"type": "socket"}}, "unsupported_delivery_type"),
        ({"delivery": {"url": "https://[::1]/"}}, "invalid_webhook_url"),
        ({"delivery": {"url": "http://127.0.0.2:9/"}}, "invalid_webhook_url"),
        ({"delivery": {"signing_secret": "secret"}}, "invalid_request"),
        ({"delivery": {"registration_id": "1"}}, "invalid_request"),
    ],
)
def test_bad_changes_change_nothing(change, instance, other, fields, code):
    before = row(instance)
    if fields.get("delivery"):
        fields = {"delivery": delivery(other) | fields["delivery"], "instance_name": "moved"}
    assert error(change(**fields)) == (400, code)
    assert (row(instance), other.got, AapInstanceUpdate.objects.count()) == (before, [], 0)


def test_a_key_is_needed(change, instance):
    assert error(change(key="", instance_name="desktop")) == (400, "missing_idempotency_key")


def test_only_the_agents_own_token_changes_an_instance(change, register, instance, agent, team, bob, workspace):
    before = row(instance)
    credential = register().json()["credential"]["token"]
    stranger = make_token(team, agent=type(agent).objects.create(name="stranger", team=team, owner=agent.owner))
    bound = make_token(agent.team, agent=agent, workspace=workspace)
    for token, status in ((credential, 403), (stranger, 404), (bound, 403), ("hr_nobody", 401)):
        assert change(token=token, instance_name="mine").status_code == status
    assert change(pk=uuid.uuid4(), instance_name="mine").status_code == 404
    assert row(instance) == before


def test_a_removed_instance_is_changed_no_more_and_not_brought_back(change, instance, api, agent_token, other):
    assert change(key="one", instance_name="one").status_code == 200
    assert api(agent_token).delete(f"/aap/v1/instances/{instance.pk}").status_code == 204
    for key in ("one", "two"):
        assert change(key=key, instance_name="one").status_code == 404
    assert change(key="three", delivery=delivery(other)).status_code == 404
    assert other.got == []


@pytest.mark.parametrize(
    ("ends", "found"), [("removed", (404, "not_found")), ("revoked", (409, "registration_overtaken"))]
)
def test_an_action_that_ends_while_its_receiver_answers_stays_ended(change, instance, other, monkeypatch, ends, found):
    before, now = row(instance), clock.now()
    rows, field = (AapInstance, "deleted_at") if ends == "removed" else (Token, "revoked_at")

    async def verify(*args):
        await attempts.sync_to_async(rows.objects.update)(**{field: now})
        return ""

    monkeypatch.setattr(webhooks, "verify", verify)
    assert error(change(delivery=delivery(other))) == found
    assert row(instance) == before


def test_changes_count_among_the_attempts_of_an_hour(change, register, instance, monkeypatch):
    monkeypatch.setattr(attempts, "MAX_ATTEMPTS", 3)
    assert change(key="one", instance_name="one").status_code == 200
    assert change(key="two", instance_name="two").status_code == 200
    assert error(change(key="three", instance_name="three")) == (429, "rate_limit")
    assert error(register(key="three")) == (429, "rate_limit")
    assert change(key="one", instance_name="one").status_code == 200  # no new attempt


def test_changes_are_in_the_log_without_secrets(change, instance, other):
    change(delivery=delivery(other), instance_name="moved")
    [event] = Event.objects.filter(verb="aap.instance_changed")
    data = json.dumps(event.data)
    assert (event.actor_label, event.data["name"]) == ("claude", "moved")
    assert [secret in data for secret in (other.receiver.secret, "of=team")] == [False, False]
    assert other.receiver.secret not in json.dumps(AapInstanceUpdate.objects.get().answer)


@pytest.mark.parametrize("has_one", [True, False])
def test_a_request_that_comes_while_the_receiver_changes_is_told_to_the_right_one(
    change, ask, instance, agent_token, bob, receiver, other, has_one
):
    change(key="off", delivery=None if has_one else delivery(receiver))
    asking = AapCaller(**vars(caller_by_token(find_token(agent_token))), instance=AapInstance.objects.get())
    assert change(key="on", delivery=delivery(other) if has_one else None).status_code == 200
    wanted = requests.parse(b'{"tool": "Bash", "arguments": {"command": "git push"}, "timeout": "10m"}')
    request, _ = requests.create(wanted, "late", asking)
    answer(request, bob)
    assert (tasks.send_webhooks(), len(other.resolved())) == ((1, 1) if has_one else (0, 0))


def test_an_instance_of_a_revoked_token_can_be_named_by_the_next_token(change, instance, agent, agent_token):
    after = make_token(agent.team, agent=agent)
    revoke(Token.objects.get(pk=instance.token_id), by=Actor.system("tests"))
    assert change(token=agent_token, instance_name="old").status_code == 401
    assert change(token=after, instance_name="new").json()["name"] == "new"

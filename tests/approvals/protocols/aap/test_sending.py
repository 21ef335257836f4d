"""When a receiver is told and when not: failures, pauses, revoked tokens, answers taken back, and the queue's look."""

import json
import time
import uuid
from datetime import timedelta

import pytest
from django_q.models import OrmQ

from approvals import tasks
from approvals.actions import gate
from approvals.actions.answer import Answer
from approvals.models import AapInstance, AapRequest, Action
from approvals.protocols.aap import attempts, instances, requests, sending, webhooks
from dashboard.database import clock
from dashboard.models import Actor, Event, Token
from dashboard.people.access import caller_by_token, caller_of
from dashboard.people.tokens import find_token, make_token, revoke
from dashboard.processes.queue import Queue
from dashboard.workers import outbox
from tests.support.aap_receiver import Dripping
from tests.support.waking import wakes  # noqa: F401 - a fixture
from workspaces.secrets import rotation

pytestmark = pytest.mark.django_db
BY = Actor.system("tests")


def answer(request, user, verdict="deny"):
    action = Action.objects.get(pk=request.action_id)
    gate.decide(action, Answer(verdict, action.digest), caller=caller_of(user))


def error(response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def is_due() -> bool:
    return AapRequest.objects.due(clock.now()).exists()


def try_again():
    early = clock.now() - timedelta(seconds=1)
    AapInstance.objects.filter(next_try_at__isnull=False).update(next_try_at=early)
    AapRequest.objects.filter(notify_at__isnull=False).update(notify_at=early)


def test_a_decision_is_sent_once(ask, bob, receiver):
    request = ask()
    assert (is_due(), tasks.send_webhooks()) == (False, 0)
    answer(request, bob)
    assert (is_due(), tasks.send_webhooks()) == (True, 1)
    assert (is_due(), tasks.send_webhooks()) == (False, 0)
    assert receiver.resolved() == [(204, str(request.pk))]
    request.refresh_from_db()
    assert (request.notify_at, request.sent_at is not None) == (None, True)


def test_a_request_that_is_decided_already_wakes_the_queue(ask, bob, wakes):  # noqa: F811
    action = Action.objects.get(pk=ask("git push one").action_id)
    edit = Answer("edit", action.digest, arguments={"command": "git push two"})
    gate.decide(action, edit, caller=caller_of(bob))
    assert (tasks.send_webhooks(), is_due()) == (1, False)
    before = Event.objects.count()
    assert wakes(ask, "git push two") is True
    assert (is_due(), Event.objects.count()) == (True, before)


def test_a_failure_waits_longer_each_time_and_the_message_stays_the_same(ask, instance, bob, receiver):
    request = ask()
    answer(request, bob)
    waits, receiver.answers = [], [(500, {}), (404, {}), (302, {"Location": receiver.url})]
    for failures in (1, 2, 3):
        assert (tasks.send_webhooks(), is_due()) == (0, False)
        instance.refresh_from_db()
        waits.append((instance.next_try_at - clock.now()).total_seconds())
        assert instance.failures == failures
        try_again()
    assert instance.problem == "It answered 302."
    assert [low <= wait <= high for wait, low, high in zip(waits, (1, 7, 22), (4, 13, 37), strict=True)] == [True] * 3
    assert tasks.send_webhooks() == 1
    assert [status for status, _ in receiver.resolved()] == [500, 404, 302, 204]
    messages = [json.dumps(told) for _, _, told in receiver.got[1:]]
    assert len(set(messages)) == 1
    instance.refresh_from_db()
    assert (instance.failures, instance.problem, instance.next_try_at) == (0, "", None)


def test_retry_after_is_followed(ask, instance, bob, receiver):
    answer(ask(), bob)
    receiver.answers = [(503, {"Retry-After": "3600"})]
    assert tasks.send_webhooks() == 0
    instance.refresh_from_db()
    assert instance.next_try_at > clock.now() + timedelta(minutes=59)


def test_a_failing_message_does_not_hold_up_the_others(ask, bob, receiver):
    first, second = ask("git push one"), ask("git push two")
    answer(first, bob)
    receiver.answers = [(500, {})]
    assert tasks.send_webhooks() == 0
    answer(second, bob)
    try_again()
    assert tasks.send_webhooks() == 2
    assert [pk for _, pk in receiver.resolved()] == [str(first.pk), str(second.pk), str(first.pk)]


def test_a_receiver_that_never_answers_costs_the_queue_its_time_limit(ask, instance, bob, monkeypatch):
    monkeypatch.setattr(webhooks, "TIMEOUT", 1)
    answer(ask(), bob)
    with Dripping() as dripping:
        AapInstance.objects.update(url=dripping.url)
        began = time.monotonic()
        assert tasks.send_webhooks() == 0
        assert time.monotonic() - began < 5
    instance.refresh_from_db()
    assert (instance.failures, instance.problem) == (1, "It could not be reached (TimeoutError).")


def test_a_message_that_cannot_be_sent_is_tried_later(ask, instance, bob, monkeypatch):
    async def broken(*args):
        raise KeyError

    answer(ask(), bob)
    monkeypatch.setattr(webhooks, "deliver", broken)
    assert (tasks.send_webhooks(), is_due()) == (0, False)
    instance.refresh_from_db()
    assert instance.problem == "It could not be sent; the queue's log says why."


def test_a_message_of_another_host_is_left_to_it_until_its_lease_ends(ask, instance, bob, receiver):
    answer(ask(), bob)
    assert outbox.claim(sending.Webhooks(), clock.now()) != []  # and then the process is killed
    assert (outbox.claim(sending.Webhooks(), clock.now()), tasks.send_webhooks()) == ([], 0)
    try_again()
    assert tasks.send_webhooks() == 1


def test_a_changed_decision_is_sent_again(ask, bob, receiver):
    request = ask()
    answer(request, bob, "approve")
    assert tasks.send_webhooks() == 1
    gate.take_back(Action.objects.get(pk=request.action_id), caller=caller_of(bob))
    assert (is_due(), tasks.send_webhooks()) == (False, 0)
    answer(request, bob)
    assert tasks.send_webhooks() == 1
    (_, _, first), (_, _, second) = receiver.got[1:]
    assert (first["request_id"], first["id"] == second["id"]) == (second["request_id"], False)


def test_a_decision_changed_while_it_is_sent_is_sent_again(ask, bob):
    request = ask()
    answer(request, bob, "approve")
    [claimed] = outbox.claim(sending.Webhooks(), clock.now())
    gate.take_back(Action.objects.get(pk=request.action_id), caller=caller_of(bob))
    outbox.record(sending.Webhooks(), *claimed, None, clock.now())
    answer(request, bob)
    assert is_due()


def test_a_message_is_given_up_after_a_week(ask, bob):
    request = ask()
    answer(request, bob)
    week = clock.now() - timedelta(days=7, minutes=1)
    AapRequest.objects.update(created_at=week, notify_at=week)
    Action.objects.update(decided_at=week, ended_at=week)
    assert (is_due(), tasks.send_webhooks()) == (False, 0)
    sending.forget(clock.now() + timedelta(days=8))
    request.refresh_from_db()
    assert (request.notify_at, request.sent_at) == (None, None)


def test_nothing_is_sent_while_the_agent_is_paused(ask, agent, bob, receiver):
    answer(ask(), bob)
    type(agent).objects.update(paused_at=clock.now())
    assert (is_due(), tasks.send_webhooks()) == (False, 0)
    type(agent).objects.update(paused_at=None)
    assert tasks.send_webhooks() == 1


@pytest.mark.parametrize("ends", ["revoked", "expired"])
def test_an_instance_ends_with_the_token_that_registered_it(ask, register, api, bob, ends):
    credential = register().json()["credential"]["token"]
    answer(ask(), bob)
    if ends == "revoked":
        revoke(Token.objects.get(), by=BY)
    else:
        Token.objects.update(expires_at=clock.now() - timedelta(seconds=1))
    assert (is_due(), tasks.send_webhooks()) == (False, 0)
    assert api(credential).get(f"/aap/v1/requests/{uuid.uuid4()}").status_code == 401


def test_a_paused_agent_is_told_so_and_registers_nothing(register, agent, api):
    credential = register().json()["credential"]["token"]
    type(agent).objects.update(paused_at=clock.now())
    assert error(register(key="two")) == (403, "paused")
    assert error(api(credential).get(f"/aap/v1/requests/{uuid.uuid4()}")) == (403, "paused")


def test_a_workspaces_token_registers_nothing(register, agent, receiver, api, workspace):
    token = make_token(agent.team, agent=agent, workspace=workspace)
    assert error(register(token)) == (403, "authorization")
    assert api(token).get(f"/aap/v1/instances/{uuid.uuid4()}").status_code == 403
    assert receiver.got == []


def test_a_name_that_leads_to_a_private_address_is_refused(register, settings, monkeypatch):
    async def resolve(self, host, *args, **options):
        return [{"hostname": host, "host": "127.0.0.1", "port": 9, "family": 2, "proto": 6, "flags": 0}]

    monkeypatch.setattr("aiohttp.resolver.ThreadedResolver.resolve", resolve)
    settings.HANDRAIL_NOTIFY_NETWORKS = ()
    assert error(register(url="https://receiver.example:9/")) == (400, "invalid_webhook_url")
    [row] = AapInstance.objects.all()
    assert (row.ready_at, row.url, row.value) == (None, "", None)


def test_an_address_that_became_private_is_not_called(ask, instance, bob, receiver, settings):
    answer(ask(), bob)
    settings.HANDRAIL_NOTIFY_NETWORKS = ()
    assert tasks.send_webhooks() == 0
    instance.refresh_from_db()
    assert (receiver.resolved(), instance.problem) == ([], "Its host resolves to a private or special address.")


def test_a_registration_under_way_is_not_begun_twice(register, instance, receiver):
    AapInstance.objects.update(ready_at=None, tried_at=clock.now() - attempts.CUT_OFF + timedelta(seconds=1))
    began = time.monotonic()
    assert register().status_code == 201  # once it is known that the first one was cut off
    assert time.monotonic() - began >= 1
    assert len(receiver.got) == 2


def test_a_registration_whose_token_is_revoked_meanwhile_comes_to_nothing(register, monkeypatch):
    async def verify(*args):
        await instances.sync_to_async(Token.objects.update)(revoked_at=clock_now)
        return ""

    clock_now = clock.now()
    monkeypatch.setattr(webhooks, "verify", verify)
    assert error(register()) == (409, "registration_overtaken")
    assert AapInstance.objects.get().ready_at is None


def test_registrations_have_limits(register, receiver, monkeypatch):
    monkeypatch.setattr(instances, "MAX_INSTANCES", 1)
    monkeypatch.setattr(attempts, "MAX_ATTEMPTS", 2)
    receiver.answers = [(500, {})]
    assert error(register()) == (422, "webhook_verification_failed")
    assert register().status_code == 201
    assert error(register(key="two")) == (429, "rate_limit")
    AapInstance.objects.update(attempts=0)
    assert error(register(key="two")) == (409, "too_many_instances")


def test_the_secret_is_kept_encrypted_and_moves_to_a_new_key(ask, instance, register, receiver, bob):
    right = receiver.receiver.secret
    assert right.encode() not in bytes(instance.value)
    rotation.rotate(say=lambda words: None)
    answer(ask(), bob)
    assert tasks.send_webhooks() == 1
    AapInstance.objects.update(value=b"other")
    answer(ask("git push --force"), bob)
    assert tasks.send_webhooks() == 0
    instance.refresh_from_db()
    assert instance.problem == "Its signing secret can't be decrypted. Register the instance again."


def test_a_request_that_comes_while_its_instance_is_removed_is_cancelled(ask, register, instance, agent_token, api):
    credential = register().json()["credential"]["token"]
    caller = caller_by_token(find_token(agent_token))
    whole = instances.AapCaller(**vars(caller))
    asking = instances.AapCaller(**vars(caller), instance=instance)
    instances.remove(instance.pk, whole)
    wanted = requests.parse(b'{"tool": "Bash", "arguments": {"command": "git push"}, "timeout": "10m"}')
    with pytest.raises(requests.Problem):
        requests.create(wanted, "late", asking)
    assert [(action.status, action.result["by"]) for action in Action.objects.all()] == [("cancelled", "claude")]
    assert api(credential).get(f"/aap/v1/requests/{uuid.uuid4()}").status_code == 401


def test_registering_and_removing_are_in_the_log_without_secrets(register, instance, receiver, agent_token, api):
    assert api(agent_token).delete(f"/aap/v1/instances/{instance.pk}").status_code == 204
    assert api(agent_token).delete(f"/aap/v1/instances/{instance.pk}").status_code == 204
    events = Event.objects.filter(verb__startswith="aap.").order_by("seq")
    assert [(event.verb, event.actor_label) for event in events] == [
        ("aap.instance_added", "claude"), ("aap.instance_removed", "claude")
    ]  # fmt: skip
    data = json.dumps([event.data for event in events])
    assert [secret in data for secret in (receiver.receiver.secret, "of=team")] == [False, False]
    instance.refresh_from_db()
    assert (instance.value, instance.deleted_at is not None) == (None, True)


def test_the_queue_looks_whether_a_receiver_is_to_be_told(ask, bob):
    request = ask()
    assert "approvals.tasks.send_webhooks" not in Queue().queue_due()
    answer(request, bob)
    assert "approvals.tasks.send_webhooks" in Queue().queue_due()
    assert "webhooks" in OrmQ.objects.values_list("key", flat=True)

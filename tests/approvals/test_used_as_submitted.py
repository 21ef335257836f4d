"""A hook's call that the policy allows is used in the transaction that submits it (docs/decisions/0124)."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from approvals.actions import gate
from approvals.evaluation.calls import Call
from approvals.models import Action, Status, Tier
from dashboard.database import clock
from dashboard.models import Event
from dashboard.problems import Problem

from .conftest import LIST, PUSH, WIPE

pytestmark = pytest.mark.django_db
STATEMENTS = 20  # of such a submission, in all that a call outside of any workspace needs


@pytest.fixture
def asked(caller):
    """`asked(LIST)`: (action, whether it is new) as the hook submits it."""

    def submit(arguments, **more):
        call = Call("Bash", arguments, session="s", call_id="toolu_1", asked_at=clock.now(), cwd="/repo")
        return gate.submit(replace(call, **more), caller=caller, runs=True)

    return submit


def verbs(action) -> list[str]:
    events = Event.objects.filter(subject_id=str(action.pk)).order_by("seq")
    return list(events.values_list("verb", flat=True))


def test_an_allowed_call_is_running_and_its_agent_has_not_heard_of_it(asked, caller):
    action, is_new = asked(LIST)
    stored = Action.objects.get(pk=action.pk)
    assert (is_new, stored.status, stored.tier, stored.agent_seen_at) == (True, Status.RUNNING, Tier.LOW, None)
    assert stored.decided_at == stored.consumed_at == stored.created_at
    assert verbs(action) == ["action.submitted", "action.allowed", "action.consumed"]
    consumed = Event.objects.get(verb="action.consumed")
    assert (consumed.actor_id, consumed.data["approved_by"]) == (str(caller.agent.pk), f"policy {stored.policy.number}")


def test_the_chain_of_events_that_are_written_together_has_no_gap(asked, team):
    asked(LIST)
    events = list(Event.objects.filter(team=team).order_by("seq"))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [event.prev for event in events[1:]] == [event.hash for event in events[:-1]]
    team.refresh_from_db()
    assert (team.event_seq, team.event_head) == (events[-1].seq, events[-1].hash)


@pytest.mark.parametrize(("arguments", "status"), [(PUSH, Status.PENDING), (WIPE, Status.DENIED)])
def test_what_is_not_allowed_is_not_used(asked, arguments, status):
    action, _ = asked(arguments)
    assert (action.status, action.consumed_at) == (status, None)


def test_the_same_event_finds_the_call_that_it_has_not_heard_of(asked):
    first, _ = asked(LIST)
    again, is_new = asked(LIST, asked_at=clock.now() + timedelta(hours=1))
    assert (again.pk, is_new, Action.objects.count()) == (first.pk, False, 1)


def test_an_equal_call_after_a_delivered_answer_is_another_action(asked):
    first, _ = asked(LIST)
    gate.mark_heard(first)
    again, is_new = asked(LIST, call_id="toolu_2")
    assert (again.pk != first.pk, is_new, Action.objects.count()) == (True, True, 2)


def test_a_stop_while_it_is_judged_refuses_it(asked, team, bob, person, monkeypatch):
    from approvals.actions import submission

    judge = submission._verdict

    def and_stop(*arguments):
        gate.stop_everything(team, caller=person(bob))
        return judge(*arguments)

    monkeypatch.setattr(submission, "_verdict", and_stop)
    with pytest.raises(Problem) as refused:
        asked(LIST)
    assert (refused.value.status, refused.value.extra["code"], Action.objects.count()) == (409, "stopped", 0)


def test_an_allowed_call_takes_few_statements(asked):
    asked(LIST)  # what is loaded at its first use
    with CaptureQueriesContext(
        connection,
    ) as sent:
        asked({"command": "ls /"}, call_id="toolu_2")
    assert len(sent) <= STATEMENTS, [each["sql"] for each in sent]

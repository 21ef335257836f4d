"""Expiry, withdrawal, and a stop of everything: neither runs, and everyone hears why."""

import pytest

from approvals.actions import gate
from approvals.models import Action, Status
from dashboard.database import clock
from dashboard.models import Event
from dashboard.problems import Problem

from ..conftest import FORCE, LIST

pytestmark = pytest.mark.django_db


@pytest.fixture
def late(ask):
    """An action whose time is up, before anybody has noticed."""
    action = ask()
    Action.objects.filter(pk=action.pk).update(expires_at=clock.now())
    return action


def test_an_unanswered_call_expires(late):
    assert gate.sweep() == 1
    late.refresh_from_db()
    assert (late.status, late.result["by"], late.ended_at is not None) == (Status.EXPIRED, "nobody", True)
    assert gate.sweep() == 0
    assert Event.objects.filter(subject_id=str(late.pk), verb="action.expired").count() == 1


def test_an_expired_call_is_shown_as_expired_before_the_sweep(late, caller):
    assert gate.find(late.pk, caller=caller).status == Status.EXPIRED


def test_a_late_answer_is_refused_and_says_so(late, decide, bob):
    with pytest.raises(Problem) as refused:
        decide(late, by=bob)
    late.refresh_from_db()
    assert (refused.value.status, refused.value.extra["code"], late.status) == (409, "expired", Status.EXPIRED)
    assert refused.value.extra["winner"]["verdict"] == "expired"


def test_a_vote_does_not_outlive_the_card(ask, decide, bob, lena):
    action = decide(ask(FORCE), by=bob)
    Action.objects.filter(pk=action.pk).update(expires_at=clock.now())
    with pytest.raises(Problem) as refused:
        decide(action, by=lena)
    assert refused.value.extra["code"] == "expired"


def test_expiry_told_once_and_then_asked_anew(ask, caller):
    first = ask(session="s")
    Action.objects.filter(pk=first.pk).update(expires_at=clock.now())
    told = ask(session="s")
    assert (told.pk, told.status) == (first.pk, Status.EXPIRED)
    gate.mark_heard(told)
    assert ask(session="s").status == Status.PENDING


# Withdrawn ---------------------------------------------------------------------------------------------------------


def test_the_agent_takes_back_what_waits_and_what_it_did_not_collect(ask, decide, caller, bob):
    waiting, approved = ask(), decide(ask(), by=bob)
    for action in (waiting, approved):
        gate.cancel(action, caller=caller)
        assert gate.cancel(action, caller=caller).status == Status.CANCELLED
        assert Event.objects.filter(subject_id=str(action.pk), verb="action.cancelled").count() == 1


def test_a_running_call_cannot_be_withdrawn(ask, consume, caller):
    action = consume(ask(LIST))
    with pytest.raises(Problem) as refused:
        gate.cancel(action, caller=caller)
    assert refused.value.status == 409


def test_a_reviewer_takes_an_approval_back_and_a_viewer_does_not(ask, decide, consume, person, bob, lena, vera):
    action = decide(ask(), by=bob)
    with pytest.raises(Problem):
        gate.cancel(action, caller=person(vera))
    gate.cancel(action, caller=person(lena))
    with pytest.raises(Problem) as refused:
        consume(action)
    assert refused.value.extra["code"] == "not_approved"


# Stop everything ---------------------------------------------------------------------------------------------------


def test_a_stop_withdraws_all_that_waits_and_allows_nothing_more(ask, decide, consume, person, bob, lena, team, caller):
    waiting, approved, running = ask(), decide(ask(), by=bob), consume(ask(LIST))
    assert gate.stop_everything(team, caller=person(bob)) == {
        "withdrawn": 2,
        "waiting": 1,
        "unused": 1,
        "commands": 0,
        "services": 0,
        "terminals": 0,
        "workspaces": 0,
    }
    for action, status in ((waiting, "cancelled"), (approved, "cancelled"), (running, "running")):
        action.refresh_from_db()
        assert action.status == status
    with pytest.raises(Problem) as refused:
        ask(LIST)
    assert refused.value.detail == "Stopped by a person. Do not retry. Wait until you are told to go on."
    assert (refused.value.status, refused.value.extra["code"]) == (409, "stopped")
    gate.lift_stop(team, caller=person(lena))
    assert ask(LIST).status == Status.APPROVED


def test_an_approval_is_not_used_while_everything_is_stopped(ask, consume, team):
    action = ask(LIST)
    type(team).objects.update(stopped_at=clock.now())
    with pytest.raises(Problem) as refused:
        consume(action)
    action.refresh_from_db()
    assert (refused.value.extra["code"], action.status) == ("stopped", Status.APPROVED)


def test_a_stop_is_in_the_log_with_what_it_withdrew(ask, person, bob, lena, team):
    ask()
    gate.stop_everything(team, caller=person(bob))
    gate.lift_stop(team, caller=person(lena))
    verbs = Event.objects.order_by("seq").values_list("verb", "actor_label")
    assert list(verbs)[-3:] == [("action.cancelled", "bob"), ("team.stopped", "bob"), ("team.lifted", "lena")]


def test_who_may_stop_and_who_may_lift(person, vera, bob, lena, team, other_team, mallory):
    for who in (vera, mallory):
        with pytest.raises(Problem) as refused:
            gate.stop_everything(team, caller=person(who))
        assert refused.value.status == 403
    gate.stop_everything(team, caller=person(bob))
    with pytest.raises(Problem) as refused:
        gate.stop_everything(team, caller=person(lena))
    assert refused.value.status == 409
    with pytest.raises(Problem) as refused:
        gate.lift_stop(team, caller=person(bob))
    assert refused.value.status == 403


def test_a_stop_of_one_team_leaves_the_other_alone(ask, person, mallory, other_team):
    action = ask()
    gate.stop_everything(other_team, caller=person(mallory))
    action.refresh_from_db()
    assert action.status == Status.PENDING

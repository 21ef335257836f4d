"""An answer is taken back only by who gave it, and only while nothing has used it."""

from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync

from approvals.actions import gate
from approvals.models import Action, Decision, Status
from dashboard.database import clock
from dashboard.models import Event
from dashboard.people.access import caller_by_token
from dashboard.people.tokens import find_token
from dashboard.problems import Problem

from .conftest import FORCE, PUSH


def undo(client, action):
    return client.post(f"/actions/{action.pk}/undo/", follow=True).content.decode()


def answer(client, action, verdict, **fields):
    return client.post(f"/actions/{action.pk}/{verdict}/", {"digest": action.digest, **fields}, follow=True)


@pytest.mark.parametrize("verdict", ["approve", "deny"])
def test_an_unused_answer_goes_back_and_the_action_can_be_decided_again(ask, bob, browser_of, verdict):
    action, client = ask(PUSH), browser_of(bob)
    assert f"/actions/{action.pk}/undo/" in answer(client, action, verdict).content.decode()
    page = undo(client, action)
    assert "Answer withdrawn. It needs approval again." in page
    action.refresh_from_db()
    assert (action.status, action.decided_at, action.ended_at) == (Status.PENDING, None, None)
    assert not Decision.objects.exists()
    reopened = Event.objects.get(verb="action.reopened")
    assert (reopened.actor_label, reopened.data["was"]) == ("bob", "approved" if verdict == "approve" else "denied")
    answer(client, action, "deny")
    assert Action.objects.get(pk=action.pk).status == Status.DENIED


def test_an_approval_that_was_taken_back_cannot_be_used(ask, bob, browser_of, agent_token):
    action, client = ask(PUSH), browser_of(bob)
    answer(client, action, "approve")
    undo(client, action)
    agent = caller_by_token(find_token(agent_token))
    with pytest.raises(Problem) as refused:
        async_to_sync(gate.consume)(action.pk, digest=action.digest, caller=agent)
    assert refused.value.extra["code"] == "not_approved"


def test_an_approval_that_was_used_stays(ask, bob, browser_of, agent_token):
    action, client = ask(PUSH), browser_of(bob)
    answer(client, action, "approve")
    agent = caller_by_token(find_token(agent_token))
    async_to_sync(gate.consume)(action.pk, digest=action.digest, caller=agent)
    assert "Too late to undo" in undo(client, action)
    assert Action.objects.get(pk=action.pk).status == Status.RUNNING
    assert Decision.objects.get().final


def test_a_denial_that_the_agent_has_heard_stays(ask, bob, browser_of):
    action, client = ask(PUSH), browser_of(bob)
    answer(client, action, "deny")
    gate.mark_heard(Action.objects.get(pk=action.pk))
    page = client.get(f"/actions/{action.pk}/").content.decode()
    assert "/undo/" not in page
    assert "Too late to undo" in undo(client, action)
    assert Action.objects.get(pk=action.pk).status == Status.DENIED


def test_only_who_answered_takes_it_back(ask, bob, lena, vera, mallory, browser_of):
    action = ask(PUSH)
    answer(browser_of(bob), action, "deny")
    assert "/undo/" not in browser_of(lena).get(f"/actions/{action.pk}/").content.decode()
    assert "Too late to undo" in undo(browser_of(lena), action)
    assert browser_of(vera).post(f"/actions/{action.pk}/undo/").status_code == 403
    assert browser_of(mallory).post(f"/actions/{action.pk}/undo/").status_code == 404
    assert Action.objects.get(pk=action.pk).status == Status.DENIED


def test_nothing_is_taken_back_after_the_expiry(ask, bob, browser_of):
    action, client = ask(PUSH), browser_of(bob)
    answer(client, action, "deny")
    Action.objects.filter(pk=action.pk).update(expires_at=clock.now() - timedelta(seconds=1))
    assert "Too late to undo" in undo(client, action)
    assert Action.objects.get(pk=action.pk).status == Status.DENIED


def test_the_other_approvals_of_a_critical_action_stay(ask, bob, lena, browser_of):
    action = ask(FORCE)
    answer(browser_of(bob), action, "approve")
    answer(browser_of(lena), action, "approve")
    undo(browser_of(lena), action)
    action.refresh_from_db()
    assert (action.status, [vote.user for vote in Decision.objects.all()]) == (Status.PENDING, [bob])


def test_a_denial_stays_when_the_agent_has_asked_again(ask, bob, browser_of):
    action, client = ask(PUSH, session="one"), browser_of(bob)
    answer(client, action, "deny")
    Action.objects.filter(pk=action.pk).update(agent_seen_at=clock.now())
    again = ask(PUSH, session="one")
    Action.objects.filter(pk=action.pk).update(agent_seen_at=None)
    assert again.pk != action.pk
    assert "Too late to undo" in undo(client, action)
    assert Action.objects.get(pk=action.pk).status == Status.DENIED

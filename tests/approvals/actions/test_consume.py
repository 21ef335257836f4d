"""Using an approval: once, for these bytes, in time; and how it ended."""

from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync

from approvals.actions import gate
from approvals.evaluation import policies
from approvals.models import Action, Status
from approvals.policy import default_policy
from dashboard.database import clock
from dashboard.models import Agent, Event, Token
from dashboard.problems import Problem

from ..conftest import FORCE, LIST

pytestmark = pytest.mark.django_db


def code(consume, *args) -> str:
    with pytest.raises(Problem) as refused:
        consume(*args)
    assert refused.value.status == 409
    return refused.value.extra["code"]


def test_an_approval_is_used_once(ask, decide, consume, bob):
    action = decide(ask(), by=bob)
    consume(action)
    action.refresh_from_db()
    assert (action.status, action.consumed_at is not None) == (Status.RUNNING, True)
    assert code(consume, action) == "already_consumed"
    assert Event.objects.filter(subject_id=str(action.pk), verb="action.consumed").count() == 1


def test_a_call_that_the_policy_allowed_is_used_once(ask, consume):
    action = ask(LIST)
    consume(action)
    assert code(consume, action) == "already_consumed"


def test_a_pending_or_denied_call_is_not_used(ask, decide, consume, bob):
    action = ask()
    assert code(consume, action) == "not_approved"
    decide(action, "deny", by=bob)
    assert code(consume, action) == "not_approved"


def test_an_approval_is_not_used_for_other_bytes(ask, decide, consume, bob):
    action = decide(ask(), by=bob)
    assert code(consume, action, "0" * 64) == "digest_mismatch"
    action.refresh_from_db()
    assert action.status == Status.APPROVED


def test_after_an_edit_the_bytes_that_were_asked_for_are_not_used(ask, decide, consume, bob):
    asked = ask()
    action = decide(asked, "edit", by=bob, arguments={"command": "git push origin review"})
    assert code(consume, action, asked.digest) == "digest_mismatch"
    consume(action)


def test_an_approval_lapses(ask, decide, consume, bob):
    action = decide(ask(), by=bob)
    Action.objects.filter(pk=action.pk).update(consume_by=clock.now())
    assert code(consume, action) == "expired"
    action.refresh_from_db()
    assert action.status == Status.EXPIRED


def test_an_expired_call_is_not_used(ask, consume):
    action = ask()
    Action.objects.filter(pk=action.pk).update(expires_at=clock.now())
    assert code(consume, action) == "expired"


def test_only_the_agent_that_asked_collects(ask, decide, bob, person, team):
    action = decide(ask(), by=bob)
    with pytest.raises(Problem) as refused:
        async_to_sync(gate.consume)(action.pk, digest=action.digest, caller=person(bob))
    assert refused.value.status == 403


# A policy that changed after the answer ----------------------------------------------------------------------------


@pytest.fixture
def new_policy(person, lena, team):
    return lambda text: policies.save(text, caller=person(lena), team=team)


def test_an_approved_call_stays_approved_when_a_new_policy_would_ask(ask, decide, consume, bob, new_policy):
    action = decide(ask(), by=bob)
    new_policy(default_policy("everything"))
    consume(action)
    action.refresh_from_db()
    assert action.status == Status.RUNNING


def test_an_approval_is_revoked_when_a_new_policy_forbids_the_call(ask, decide, consume, bob, new_policy):
    action = decide(ask(), by=bob)
    new_policy('mode = "irreversible"\nforbidden = ["Bash(git push *)"]\n')
    assert code(consume, action) == "revoked"
    action.refresh_from_db()
    assert (action.status, action.result["by"]) == (Status.CANCELLED, "policy 2")


def test_an_approval_is_revoked_when_a_new_policy_wants_two_people(ask, decide, consume, bob, new_policy):
    action = decide(ask(), by=bob)
    new_policy('mode = "irreversible"\ncritical = ["Bash(git push *)"]\n')
    assert code(consume, action) == "revoked"


def test_two_approvals_stay_enough_when_a_new_policy_asks_for_two(ask, decide, consume, bob, lena, new_policy):
    action = ask(FORCE)
    decide(action, by=bob)
    decide(action, by=lena)
    new_policy('mode = "irreversible"\ncritical = ["Bash(git *)"]\n')
    assert consume(action).status == Status.RUNNING


def test_an_allowance_of_the_old_policy_is_revoked(ask, consume, new_policy):
    action = ask(LIST)
    new_policy(default_policy("everything"))
    assert code(consume, action) == "revoked"


def test_when_the_new_policy_cannot_be_asked_nothing_is_allowed_and_the_answer_is_kept(
    ask, decide, consume, bob, new_policy, team
):
    action = decide(ask(), by=bob)
    new = new_policy(default_policy("everything"))
    team.policies.filter(pk=new.pk).update(text="[", sha256="broken three")
    with pytest.raises(Problem) as refused:
        consume(action)
    action.refresh_from_db()
    assert (refused.value.status, action.status) == (503, Status.APPROVED)


# How it ended ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ended", ["succeeded", "failed"])
def test_the_agent_says_how_it_ended(ask, consume, caller, ended):
    action = consume(ask(LIST))
    gate.outcome(action, ended, caller=caller, note="took a while")
    action.refresh_from_db()
    assert (action.status, action.result["note"], action.ended_at is not None) == (ended, "took a while", True)
    assert gate.outcome(action, ended, caller=caller).status == ended
    other = {"succeeded": "failed", "failed": "succeeded"}[ended]
    with pytest.raises(Problem) as refused:
        gate.outcome(action, other, caller=caller)
    assert (refused.value.status, refused.value.extra["code"]) == (409, "outcome_conflict")


def test_a_call_that_does_not_run_has_no_outcome(ask, caller):
    with pytest.raises(Problem) as refused:
        gate.outcome(ask(), "succeeded", caller=caller)
    assert refused.value.status == 409


def test_without_an_outcome_in_a_day_it_is_unclear_until_a_person_says(ask, consume, caller, person, bob, vera):
    action = consume(ask(LIST))
    assert gate.sweep() == 0
    Action.objects.filter(pk=action.pk).update(consumed_at=clock.now() - timedelta(hours=25))
    assert gate.sweep() == 1
    action.refresh_from_db()
    assert action.status == Status.UNCERTAIN
    for who in (caller, person(vera)):
        with pytest.raises(Problem):
            gate.outcome(action, "succeeded", caller=who)
    assert gate.outcome(action, "failed", caller=person(bob), note="no trace of it").status == Status.FAILED


def test_a_person_does_not_end_what_still_runs(ask, consume, person, bob):
    action = consume(ask(LIST))
    with pytest.raises(Problem) as refused:
        gate.settle(action, "succeeded", caller=person(bob))
    assert refused.value.status == 409


def test_an_agent_that_was_paused_collects_nothing(api, agent_token, ask, decide, bob, agent):
    action = decide(ask(), by=bob)
    Agent.objects.filter(pk=agent.pk).update(paused_at=clock.now())
    response = api(agent_token).post(
        f"/api/v1/actions/{action.pk}/consume", {"digest": action.digest}, content_type="application/json"
    )
    assert (response.status_code, response.json()["code"]) == (403, "paused")
    assert Token.objects.get(agent=agent).revoked_at is None

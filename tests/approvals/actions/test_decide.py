"""Answering: bound to the bytes on the screen, first final verdict wins, votes are votes."""

import pytest

from approvals.actions import gate
from approvals.actions.answer import Answer
from approvals.models import Decision, Status, Tier
from dashboard.models import Event, Membership
from dashboard.problems import Problem

from ..conftest import FORCE, LIST, PUSH, WIPE

pytestmark = pytest.mark.django_db


def test_one_approval_is_enough_for_a_high_call(ask, decide, bob):
    action = decide(ask(), by=bob, comment="go")
    assert (action.status, action.decided_at < action.consume_by) == (Status.APPROVED, True)
    decision = Decision.objects.get()
    assert (decision.verdict, decision.user, decision.comment, decision.final) == ("approve", bob, "go", True)


def test_one_denial_denies(ask, decide, bob):
    action = decide(ask(), "deny", by=bob, comment="not on a Friday")
    assert (action.status, action.ended_at is not None) == (Status.DENIED, True)
    assert Decision.objects.get().final


def test_a_critical_call_takes_two_people(ask, decide, bob, lena):
    action = decide(ask(FORCE), by=bob)
    assert (action.status, Decision.objects.get().final) == (Status.PENDING, False)
    action = decide(action, by=lena)
    assert action.status == Status.APPROVED
    assert Decision.objects.get(user=lena).final


def test_two_approvals_of_one_person_are_one_vote(ask, decide, bob):
    action = ask(FORCE)
    decide(action, by=bob)
    assert decide(action, by=bob).status == Status.PENDING
    assert Decision.objects.count() == 1


def test_one_denial_is_enough_for_a_critical_call(ask, decide, bob, lena):
    action = decide(ask(FORCE), by=bob)
    assert decide(action, "deny", by=lena).status == Status.DENIED


def test_a_voter_can_change_to_deny(ask, decide, bob):
    action = decide(ask(FORCE), by=bob)
    assert decide(action, "deny", by=bob).status == Status.DENIED
    assert Decision.objects.get().verdict == "deny"


def test_the_vote_of_somebody_who_left_does_not_count(ask, decide, bob, lena, alice, team):
    action = decide(ask(FORCE), by=bob)
    Membership.objects.filter(user=bob).delete()
    assert decide(action, by=lena).status == Status.PENDING
    assert decide(action, by=alice).status == Status.APPROVED


def test_each_answer_is_in_the_log(ask, decide, bob, lena):
    action = ask(FORCE)
    decide(action, by=bob)
    decide(action, by=lena)
    events = Event.objects.filter(subject_id=str(action.pk), actor_type="person").order_by("seq")
    assert [(e.verb, e.actor_label) for e in events] == [("action.vote", "bob"), ("action.approved", "lena")]


# Who may not -------------------------------------------------------------------------------------------------------


def test_a_viewer_does_not_decide(ask, decide, vera):
    with pytest.raises(Problem) as refused:
        decide(ask(), by=vera)
    assert refused.value.status == 403


def test_an_agent_never_decides(ask, caller):
    action = ask()
    with pytest.raises(Problem) as refused:
        gate.decide(action, Answer("approve", action.digest), caller=caller)
    action.refresh_from_db()
    assert (refused.value.status, action.status) == (403, Status.PENDING)


def test_somebody_of_another_team_finds_nothing(ask, decide, mallory):
    with pytest.raises(Problem) as refused:
        decide(ask(), by=mallory)
    assert refused.value.status == 404


# What is refused ---------------------------------------------------------------------------------------------------


def refusal(decide, *args, **kwargs) -> Problem:
    with pytest.raises(Problem) as refused:
        decide(*args, **kwargs)
    return refused.value


@pytest.mark.parametrize("second", ["approve", "deny", "edit"])
@pytest.mark.parametrize("first", ["approve", "deny"])
def test_the_second_decision_names_the_first(ask, decide, bob, lena, first, second):
    action = ask()
    decide(action, first, by=bob)
    more = {"arguments": LIST} if second == "edit" else {}
    problem = refusal(decide, action, second, by=lena, **more)
    action.refresh_from_db()
    assert (problem.status, problem.extra["winner"]["verdict"], problem.extra["winner"]["by"]) == (409, first, "bob")
    assert action.status == {"approve": Status.APPROVED, "deny": Status.DENIED}[first]


def test_nobody_can_decide_a_call_that_the_policy_settled(ask, decide, bob):
    problem = refusal(decide, ask(LIST), by=bob)
    assert (problem.status, problem.extra["winner"]["by"]) == (409, "policy 1")


def test_a_digest_of_yesterday_decides_nothing(ask, decide, bob):
    action = ask()
    problem = refusal(decide, action, by=bob, digest="0" * 64)
    action.refresh_from_db()
    assert (problem.status, problem.extra["code"], action.status) == (409, "digest_mismatch", Status.PENDING)


def test_nobody_can_decide_a_withdrawn_call(ask, decide, caller, bob):
    action = gate.cancel(ask(), caller=caller)
    problem = refusal(decide, action, by=bob)
    assert (problem.status, problem.extra["code"], problem.extra["winner"]["verdict"]) == (
        409,
        "cancelled",
        "cancelled",
    )


@pytest.mark.parametrize(
    ("verdict", "more"),
    [("maybe", {}), ("edit", {}), ("approve", {"arguments": LIST}), ("deny", {"comment": "x" * 4001})],
)
def test_an_answer_that_makes_no_sense_changes_nothing(ask, decide, bob, verdict, more):
    action = ask()
    problem = refusal(decide, action, verdict, by=bob, **more)
    action.refresh_from_db()
    assert (problem.status, action.status, Decision.objects.count()) == (422, Status.PENDING, 0)


# Edits -------------------------------------------------------------------------------------------------------------


def test_an_edit_within_ones_own_right_is_approved_at_once(ask, decide, bob):
    action = ask()
    was = action.digest
    action = decide(action, "edit", by=bob, arguments={"command": "git push origin review"})
    assert (action.status, action.revision, action.digest == was) == (Status.APPROVED, 2, False)
    assert [r.by["label"] for r in action.revisions.order_by("number")] == ["claude", "bob"]
    decision = Decision.objects.get()
    assert (decision.verdict, decision.revision.digest, decision.final) == ("edit", was, True)


def test_an_edit_that_raises_the_tier_waits_with_a_new_digest_and_no_votes(ask, decide, bob, lena, alice):
    action = ask(PUSH)
    was = action.digest
    action = decide(action, "edit", by=bob, arguments=FORCE)
    assert (action.status, action.tier, action.quorum, action.revision) == (Status.PENDING, Tier.CRITICAL, 2, 2)
    problem = refusal(decide, action, by=lena, digest=was)
    assert (problem.extra["code"], problem.extra["winner"]["by"]) == ("digest_mismatch", "bob")
    assert decide(action, by=bob).status == Status.PENDING
    assert decide(action, by=lena).status == Status.APPROVED


def test_votes_on_one_revision_do_not_count_for_the_next(ask, decide, bob, lena, alice):
    action = decide(ask(FORCE), by=bob)
    action = decide(action, "edit", by=lena, arguments={"command": "git push --force origin main && ls"})
    assert (action.status, action.tier) == (Status.PENDING, Tier.CRITICAL)
    assert decide(action, by=alice).status == Status.PENDING
    assert decide(action, by=bob).status == Status.APPROVED


def test_an_edit_to_what_is_forbidden_is_refused_with_the_reasons(ask, decide, bob):
    action = ask()
    problem = refusal(decide, action, "edit", by=bob, arguments=WIPE)
    action.refresh_from_db()
    assert (problem.status, problem.extra["code"], bool(problem.extra["reasons"])) == (422, "forbidden", True)
    assert (action.status, action.revision, action.revisions.count()) == (Status.PENDING, 1, 1)


def test_an_edit_that_changes_nothing_is_a_plain_yes(ask, decide, bob):
    action = decide(ask(PUSH), "edit", by=bob, arguments=dict(PUSH))
    assert (action.status, action.revision, Decision.objects.get().verdict) == (Status.APPROVED, 1, "approve")


def test_an_edit_cannot_be_judged_without_a_policy(ask, decide, bob, team):
    action = ask()
    team.policies.update(text="mode = 7 [", sha256="broken too")
    problem = refusal(decide, action, "edit", by=bob, arguments=LIST)
    action.refresh_from_db()
    assert (problem.status, action.status, action.revision) == (503, Status.PENDING, 1)


def test_an_edit_of_old_bytes_is_refused(ask, decide, bob, lena):
    action = ask(FORCE)
    was = action.digest
    decide(action, "edit", by=bob, arguments={"command": "git push --force origin main && ls"})
    problem = refusal(decide, action, "edit", by=lena, arguments=PUSH, digest=was)
    assert problem.extra["code"] == "digest_mismatch"

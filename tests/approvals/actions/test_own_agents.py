"""Where the team says so, nobody approves what their own agent asks, by any way; without it, owners may."""

import json

import pytest

from approvals.actions import gate, grants
from approvals.actions.answer import Answer
from approvals.actions.quorum import votes
from approvals.models import Decision, Grant, Status, Tier
from dashboard.models import Actor, Agent, Event, Membership, Role, Team
from dashboard.people import owner_approval
from dashboard.problems import Problem
from handrail_verify.decisions import Decisions

from ..conftest import FORCE, PUSH

pytestmark = pytest.mark.django_db
SAYS = "somebody else approves it"


@pytest.fixture
def bobs(agent, bob):
    """The agent, which is Bob's."""
    Agent.objects.filter(pk=agent.pk).update(owner=bob)
    agent.refresh_from_db()
    return agent


@pytest.fixture
def apart(team, alice, lena):
    """The team says that somebody else approves."""
    owner_approval.change(team, False, by=Actor.person(alice))
    team.refresh_from_db()
    return team


def refused(do) -> str:
    with pytest.raises(Problem) as problem:
        do()
    assert (problem.value.status, problem.value.extra["code"]) == (403, "own_agent")
    return problem.value.detail


def test_owners_approve_as_long_as_the_team_says_nothing(bobs, ask, decide, bob):
    assert decide(ask(), by=bob).status == Status.APPROVED


def test_the_owner_is_refused_and_somebody_else_approves(apart, bobs, ask, decide, bob, lena):
    action = ask()
    assert SAYS in refused(lambda: decide(action, by=bob))
    assert Decision.objects.count() == 0
    assert decide(action, by=lena).status == Status.APPROVED


def test_the_owner_may_deny(apart, bobs, ask, decide, bob):
    assert decide(ask(), "deny", by=bob).status == Status.DENIED


def test_an_edit_by_the_owner_is_an_approval(apart, bobs, ask, decide, bob):
    action = ask()
    refused(lambda: decide(action, "edit", by=bob, arguments={"command": "git push origin main:other"}))
    action.refresh_from_db()
    assert (action.status, action.revision) == (Status.PENDING, 1)


def test_a_vote_from_before_no_longer_counts(bobs, team, alice, ask, decide, bob, lena):
    action = decide(ask(FORCE), by=bob)
    assert [vote.user for vote in votes(action)] == [bob]
    owner_approval.change(team, False, by=Actor.person(alice))
    action = decide(action, by=lena)
    assert (action.status, [vote.user for vote in votes(action)]) == (Status.PENDING, [lena])
    assert decide(action, by=alice).status == Status.APPROVED


def test_the_switch_that_comes_while_the_approval_is_on_its_way_holds(bobs, team, alice, lena, ask, person, bob):
    """The answer was let in, and the team said so before the answer was counted."""
    action = gate.find(ask().pk, caller=person(bob))
    assert action.team.owner_may_approve  # as it was loaded for the answer
    owner_approval.change(team, False, by=Actor.person(alice))
    refused(lambda: gate.decide(action, Answer("approve", action.digest), caller=person(bob)))
    action.refresh_from_db()
    assert action.status == Status.PENDING


def test_no_grant_by_the_owner_is_given_or_holds(bobs, team, alice, lena, ask, person, bob):
    grants.approve_and_grant(ask(), caller=person(bob), digest=ask().digest)
    assert ask(session="two").status == Status.APPROVED
    owner_approval.change(team, False, by=Actor.person(alice))
    action = ask(session="three")
    assert action.status == Status.PENDING
    refused(lambda: grants.approve_and_grant(action, caller=person(bob), digest=action.digest))
    assert Grant.objects.count() == 1


def test_many_at_once_leave_out_the_owners(apart, bobs, ask, browser_of, bob):
    waiting = [ask(session=str(n)) for n in range(4)]
    form = {"verdict": "approve", "action": [f"{action.pk}:{action.digest}" for action in waiting]}
    browser_of(bob).post(f"/actions/{waiting[0].pk}/alike/", form)
    assert Decision.objects.count() == 0


def test_the_page_says_so_before_the_first_tap(apart, bobs, ask, browser_of, bob, lena):
    action = ask()
    card = f"/actions/{action.pk}/"
    page = browser_of(bob).get(card).content.decode()
    assert "This is your own agent&#x27;s: somebody else approves it." in page
    assert f'href="{card}deny/"' in page
    assert f"{card}approve/" not in page
    refusal = browser_of(bob).post(f"{card}approve/", {"digest": action.digest})
    assert (refusal.status_code, SAYS in refusal.content.decode()) == (403, True)
    assert "somebody else approves" in browser_of(bob).get("/waiting/").content.decode()
    assert SAYS not in browser_of(lena).get(card).content.decode()


def test_the_api_says_so_with_a_code(apart, bobs, ask, post, token_of, bob):
    action = ask()
    body = {"verdict": "approve", "digest": action.digest}
    status, answer = post(token_of(bob), f"/api/v1/actions/{action.pk}/decision", body)
    assert (status, answer["code"]) == (403, "own_agent")


def test_a_question_is_answered_by_the_owner(apart, bobs, ask, decide, bob):
    option = {"label": "red", "description": ""}
    question = {"question": "Which?", "header": "Color", "options": [option, {**option, "label": "blue"}]}
    action = ask({"questions": [question]}, tool="AskUserQuestion")
    answered = decide(action, "edit", by=bob, arguments={"questions": [question], "answers": {"Which?": "red"}})
    assert answered.status == Status.APPROVED


def test_a_critical_call_takes_two_others(apart, bobs, ask, decide, alice, bob, lena):
    action = ask(FORCE)
    assert action.tier == Tier.CRITICAL
    refused(lambda: decide(action, by=bob))
    assert decide(action, by=alice).status == Status.PENDING
    assert decide(action, by=lena).status == Status.APPROVED


def test_the_log_verifies_as_before(apart, bobs, ask, decide, consume, bob, lena):
    action = decide(ask(PUSH), by=lena)
    consume(action)
    known = Decisions()
    for event in Event.objects.order_by("seq"):
        subject = {"type": event.subject_type, "id": event.subject_id}
        actor = {"type": event.actor_type, "id": event.actor_id, "label": event.actor_label}
        known.follow({"seq": event.seq, "verb": event.verb, "data": event.data, "subject": subject, "actor": actor})


# The switch ----------------------------------------------------------------------------------------------------------


def test_admins_switch_it_on_the_team_page(team, alice, lena, browser_of):
    form = {"team": team.slug, "approve": "another"}
    assert browser_of(lena).post("/team/owner-approval/", form).status_code == 403
    page = browser_of(alice).post("/team/owner-approval/", form, follow=True).content.decode()
    assert "Nobody approves what their own agent asks" in page
    assert not Team.objects.get().owner_may_approve
    browser_of(alice).post("/team/owner-approval/", form | {"approve": "owner"})
    assert Team.objects.get().owner_may_approve
    verbs = Event.objects.filter(verb__startswith="team.owner").order_by("seq").values_list("verb", flat=True)
    assert list(verbs) == ["team.owner_may_not_approve", "team.owner_may_approve"]
    assert "Had somebody else approve what an own agent asks" in browser_of(alice).get("/log/").content.decode()


def test_it_is_refused_while_fewer_than_two_people_may_decide(team, alice, vera, browser_of):
    form = {"team": team.slug, "approve": "another"}
    page = browser_of(alice).post("/team/owner-approval/", form, follow=True).content.decode()
    assert "Fewer than two people may decide" in page
    assert Team.objects.get().owner_may_approve
    Membership.objects.filter(user=vera).update(role=Role.REVIEWER)
    browser_of(alice).post("/team/owner-approval/", form)
    assert not Team.objects.get().owner_may_approve


def test_the_api_switches_it_for_admins(team, alice, lena, api, token_of):
    def patch(user, body):
        answer = api(token_of(user)).patch(
            f"/api/v1/teams/{team.slug}", json.dumps(body), content_type="application/json"
        )
        return answer.status_code, answer.json()

    assert patch(lena, {"owner_may_approve": False})[0] == 403
    status, answer = patch(alice, {"owner_may_approve": False})
    assert (status, answer["owner_may_approve"], answer["name"]) == (200, False, "Payments")
    assert patch(alice, {"name": "Pay"})[1]["owner_may_approve"] is False

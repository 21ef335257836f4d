"""A single admin approves a critical action alone; as soon as somebody else could, it takes two for good."""

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.test import Client

from approvals.actions import gate
from approvals.actions.answer import Answer
from approvals.actions.solo import SoloRequest
from approvals.models import Decision, Status
from dashboard.database import clock
from dashboard.models import Actor, Event, Membership, Role, Team
from dashboard.people import members
from dashboard.people.access import caller_by_token, caller_of
from dashboard.people.tokens import find_token, make_sign_in_link, make_token
from dashboard.problems import Problem

from ..conftest import FORCE

pytestmark = pytest.mark.django_db


@pytest.fixture
def alone(team, alice):
    """Alice, the only person of the team."""
    Membership.objects.filter(team=team).exclude(user=alice).delete()
    return alice


@pytest.fixture
def newcomer(db):
    """Somebody of no team yet."""
    return get_user_model().objects.create_user("nora")


def fresh(typed: str, how: str = "password", **ago) -> SoloRequest:
    return SoloRequest(typed, clock.now() - timedelta(**ago), how)


def answer(action, by, proof: SoloRequest | None, caller=None):
    return gate.decide(action, Answer("approve", action.digest, alone=proof), caller=caller or caller_of(by))


def test_a_single_admin_approves_alone_and_it_is_recorded(ask, alone, agent):
    action = answer(ask(FORCE), alone, fresh(agent.name, minutes=5))
    assert action.status == Status.APPROVED
    assert Decision.objects.get().assertion["solo"] is True
    assert Event.objects.get(verb="action.approved").data["solo"] is True


@pytest.mark.parametrize(
    ("proof", "why"),
    [
        ({"minutes": 16}, "Sign out and in again"),
        ({"how": "link", "seconds": 20}, "You signed in with a link a moment ago."),
        ({"typed": "another", "minutes": 5}, "to approve this alone. Nothing was approved."),
    ],
)
def test_an_old_session_a_link_of_this_minute_and_another_target_are_refused(ask, alone, agent, proof, why):
    action = ask(FORCE)
    with pytest.raises(Problem) as refused:
        answer(action, alone, fresh(**({"typed": agent.name} | proof)))
    action.refresh_from_db()
    assert (why in refused.value.detail, action.status, Decision.objects.count()) == (True, Status.PENDING, 0)


def test_a_plain_yes_of_a_single_admin_is_a_vote(ask, alone):
    assert answer(ask(FORCE), alone, None).status == Status.PENDING


def test_a_token_never_approves_alone(ask, alone, agent, team):
    caller = caller_by_token(find_token(make_token(team, user=alone)))
    with pytest.raises(Problem) as refused:
        answer(ask(FORCE), alone, fresh(agent.name, minutes=5), caller=caller)
    assert refused.value.status == 403


@pytest.mark.parametrize("change", ["second person", "only a lead", "switched off"])
def test_a_critical_call_takes_two_approvals_when_somebody_else_could_approve(
    ask, alone, agent, team, newcomer, change
):
    if change == "second person":
        members.add(team, newcomer, Role.REVIEWER, by=Actor.system("test"))
    elif change == "only a lead":
        Membership.objects.filter(user=alone).update(role=Role.LEAD)
    else:
        Team.objects.filter(pk=team.pk).update(allows_solo=False)
    with pytest.raises(Problem) as refused:
        answer(ask(FORCE), alone, fresh(agent.name, minutes=5))
    assert refused.value.status == 403


def test_the_way_stays_closed_after_the_second_person_left_until_it_is_reopened(ask, alone, agent, team, newcomer):
    second = members.add(team, newcomer, Role.REVIEWER, by=Actor.system("test"))
    with pytest.raises(CommandError, match="More than one person may approve"):
        call_command("reopen_solo", "--team", team.slug)
    members.remove(second, by=Actor.system("test"))
    action = ask(FORCE)
    with pytest.raises(Problem):
        answer(action, alone, fresh(agent.name, minutes=5))
    call_command("reopen_solo", "--team", team.slug)
    assert Event.objects.filter(verb="team.solo_reopened").count() == 1
    assert answer(action, alone, fresh(agent.name, minutes=5)).status == Status.APPROVED


def test_a_viewer_who_joins_closes_nothing(ask, alone, agent, team, newcomer):
    members.add(team, newcomer, Role.VIEWER, by=Actor.system("test"))
    assert answer(ask(FORCE), alone, fresh(agent.name, minutes=5)).status == Status.APPROVED


def test_the_page_offers_it_and_says_what_is_missing(ask, alone, agent):
    action, browser = ask(FORCE), Client()
    browser.post(f"/sign-in/{make_sign_in_link(alone)}/")
    card = f"/actions/{action.pk}/"
    assert "you are the only one in Payments who can approve" in browser.get(card).content.decode()
    form = {"digest": action.digest, "target": agent.name}
    refused = browser.post(f"{card}approve/alone/", form)
    assert (refused.status_code, "Wait a minute" in refused.content.decode()) == (403, True)
    session = browser.session
    session["signed_in"] = {"at": (clock.now() - timedelta(minutes=2)).isoformat(), "how": "link"}
    session.save()
    assert browser.post(f"{card}approve/alone/", form).status_code == 302
    action.refresh_from_db()
    assert action.status == Status.APPROVED


def test_the_page_offers_nothing_where_two_can_approve(ask, alice, bob):
    action, browser = ask(FORCE), Client()
    browser.force_login(alice)
    assert "the only one in" not in browser.get(f"/actions/{action.pk}/").content.decode()

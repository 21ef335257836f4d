"""A waiting call that nobody decided in time is passed to a role or group: in the log, by a notice, on the card."""

from datetime import timedelta

import pytest

from approvals import tasks
from approvals.actions import escalation
from approvals.evaluation import approver_groups, policies
from approvals.models import Action, Notice, NotificationSettings, Status
from approvals.notify import routing
from approvals.policy import default_policy, load_policy
from dashboard.database import clock
from dashboard.models import Event
from dashboard.problems import Problem

from ..conftest import FORCE, PUSH

pytestmark = pytest.mark.django_db


@pytest.fixture
def says(team, person, alice):
    """`says('high = {minutes = 15, role = "lead"}')`: the team's policy has this in its table `escalate`."""

    def save(table):
        text = default_policy().replace("\n[[tests]]", f"\n[escalate]\n{table}\n\n[[tests]]", 1)
        return policies.save(text, caller=person(alice), team=team)

    return save


def later(action, minutes):
    """Let so many minutes pass for the action; return it as it is after a sweep."""
    Action.objects.filter(pk=action.pk).update(escalate_at=action.escalate_at - timedelta(minutes=minutes))
    tasks.sweep()
    action.refresh_from_db()
    return action


def test_it_is_passed_on_once_after_its_minutes(says, ask):
    says('high = {minutes = 15, role = "lead"}')
    action = ask(PUSH)
    assert action.escalate_at == action.created_at + timedelta(minutes=15)
    assert later(action, 14).escalated_at is None
    assert (later(action, 15).escalated_at is not None, action.status) == (True, Status.PENDING)
    assert Event.objects.get(verb="action.escalated").data["role"] == "lead"
    assert escalation.sweep() == 0


def test_another_tier_and_a_decided_call_are_not_passed_on(says, ask, decide, bob):
    says('high = {minutes = 15, role = "lead"}')
    assert ask(FORCE).escalate_at is None
    action = ask(PUSH)
    decide(action, by=bob)
    assert later(action, 20).escalated_at is None


def test_its_people_are_told_again_whatever_they_chose(says, ask, team, person, alice, lena, bob):
    approver_groups.make(team, "dba", ["lena"], caller=person(alice))
    says('high = {minutes = 5, group = "dba"}')
    action = ask(PUSH)
    NotificationSettings.objects.create(user=lena, only_critical=True)
    told = Notice.objects.create(action=action, user=lena, digest=action.digest, created_at=clock.now())
    other = Notice.objects.create(action=action, user=bob, digest=action.digest, created_at=clock.now())
    (recipient,) = routing.recipients([lena.pk])
    assert routing.wants(recipient, action) is False
    later(action, 5)
    assert routing.wants(recipient, action) is True
    told.refresh_from_db()
    other.refresh_from_db()
    assert (told.closed_at is not None, other.closed_at) == (True, None)


def test_the_card_and_the_api_say_it(says, ask, browser_of, bob, api, token_of):
    says('high = {minutes = 5, role = "lead"}')
    action = ask(PUSH)
    path = f"/api/v1/actions/{action.pk}"
    assert api(token_of(bob)).get(path).json()["escalated_to"] is None
    later(action, 5)
    assert "passed on to leads" in browser_of(bob).get(f"/actions/{action.pk}/").content.decode()
    assert api(token_of(bob)).get(path).json()["escalated_to"] == "lead"


def test_the_policy_page_says_it(says, browser_of, bob, lena, team, person, alice):
    approver_groups.make(team, "dba", ["lena"], caller=person(alice))
    says('high = {minutes = 1, group = "dba"}\ncritical = {minutes = 5, role = "lead"}')
    text = " ".join(browser_of(bob).get("/policy/").content.decode().split())
    assert "after 1 minute to the group dba" in text
    assert "after 5 minutes to leads" in text


def test_a_group_without_people_is_refused(says):
    with pytest.raises(Problem, match=r"escalate\.high names the group dba"):
        says('high = {minutes = 5, group = "dba"}')


@pytest.mark.parametrize(
    "table",
    [
        "high = 5",
        "low = {minutes = 5, role = 'lead'}",
        "high = {minutes = 5}",
        "high = {minutes = 0, role = 'lead'}",
        "high = {minutes = 5, role = 'viewer'}",
        "high = {minutes = 5, role = 'lead', group = 'dba'}",
        "high = {minutes = true, group = 'dba'}",
    ],
)
def test_what_the_table_cannot_say(table):
    with pytest.raises(ValueError, match="escalate"):
        load_policy(f"[escalate]\n{table}\n")

"""A policy says how many people approve a tier, and that one of them is a lead; it can only ask for more."""

from unittest.mock import Mock

import pytest

from approvals.actions import grants
from approvals.evaluation import policies
from approvals.evaluation.judge import judge, judge_or_ask
from approvals.evaluation.workers import Late
from approvals.models import Action, Status
from approvals.policy import default_policy
from approvals.policy.people import Takes
from dashboard.models import Actor, Event, Membership, Role
from dashboard.problems import Problem

from ..conftest import FORCE, PUSH

pytestmark = pytest.mark.django_db
CRITICAL = 'critical = {people = 2, role = "lead"}'


def with_table(table: str) -> str:
    """The default policy with this line in its table of approvals."""
    return default_policy("irreversible").replace("\n[[tests]]", f"\n[approvals]\n{table}\n\n[[tests]]", 1)


@pytest.fixture
def says(team):
    """`says("high = {people = 2}")`: the team's policy has this in its table of approvals."""

    def save(table, **more):
        return policies.add(team.pk, with_table(table), actor=Actor.system("test"), **more)

    return save


@pytest.fixture
def rosa(team, django_user_model):
    """A second reviewer."""
    user = django_user_model.objects.create_user("rosa")
    Membership.objects.create(team=team, user=user, role=Role.REVIEWER)
    return user


def test_two_people_of_whom_one_is_a_lead(says, ask, decide, bob, rosa, lena):
    says(CRITICAL)
    action = ask(FORCE)
    assert (action.quorum, action.quorum_role) == (2, "lead")
    assert decide(action, by=bob).status == Status.PENDING
    assert decide(action, by=rosa).status == Status.PENDING  # two people, and neither is a lead
    assert decide(action, by=lena).status == Status.APPROVED
    data = Event.objects.get(verb="action.approved").data
    assert (data["votes"], data["quorum"], data["role"]) == (3, 2, "lead")


@pytest.mark.parametrize("order", [("bob", "lena"), ("lena", "bob"), ("alice", "bob")])
def test_a_lead_or_an_admin_in_any_order(says, ask, decide, order, request):
    says(CRITICAL)
    action = ask(FORCE)
    first, second = map(request.getfixturevalue, order)
    assert decide(action, by=first).status == Status.PENDING
    assert decide(action, by=second).status == Status.APPROVED


def test_a_lead_alone_is_not_two_people(says, ask, decide, lena):
    says(CRITICAL)
    assert decide(ask(FORCE), by=lena).status == Status.PENDING


def test_a_tier_that_one_person_approves_can_take_a_lead(says, ask, decide, bob, lena):
    says('high = {role = "lead"}')
    action = ask(PUSH)
    assert (action.quorum, action.takes_one) == (1, False)
    assert decide(action, by=bob).status == Status.PENDING
    assert decide(action, by=lena).status == Status.APPROVED


def test_a_role_that_ended_meanwhile_does_not_count(says, ask, decide, bob, lena, alice):
    says(CRITICAL)
    action = decide(ask(FORCE), by=lena)
    Membership.objects.filter(user=lena).update(role=Role.REVIEWER)
    assert decide(action, by=bob).status == Status.PENDING
    assert decide(action, by=alice).status == Status.APPROVED


def test_an_edit_by_a_reviewer_waits_for_a_lead(says, ask, decide, bob, lena):
    says('high = {role = "lead"}')
    edited = decide(ask(PUSH), "edit", by=bob, arguments={"command": "git push origin main:other"})
    assert (edited.status, edited.quorum_role, edited.revision) == (Status.PENDING, "lead", 2)
    assert decide(edited, by=lena).status == Status.APPROVED


def test_no_grant_covers_what_takes_more_than_one_person(says, ask, person, bob):
    grants.approve_and_grant(ask(PUSH), caller=person(bob), digest=ask(PUSH).digest)
    assert ask(PUSH, session="two").status == Status.APPROVED
    says("high = {people = 2}")
    action = ask(PUSH, session="three")
    assert (action.status, action.quorum) == (Status.PENDING, 2)
    with pytest.raises(Problem, match="one person can approve"):
        grants.approve_and_grant(action, caller=person(bob), digest=action.digest)


def test_an_approval_of_too_few_under_a_new_policy_is_revoked(says, ask, decide, consume, bob):
    action = decide(ask(PUSH), by=bob)
    says('high = {role = "lead"}')
    with pytest.raises(Problem) as refused:
        consume(action)
    assert refused.value.extra["code"] == "revoked"


def test_an_approval_that_meets_the_new_policy_stays(says, ask, decide, consume, lena):
    action = decide(ask(PUSH), by=lena)
    says('high = {role = "lead"}')
    assert consume(action).status == Status.RUNNING


def test_an_environments_own_policy_loosens_nothing(says, team, workspace):
    says("high = {people = 3}")
    says('high = {role = "lead"}', environment=workspace.environment)
    found = judge("Bash", PUSH, None, workspace, team.pk)
    assert found.takes == Takes(3, "lead")


def test_what_no_policy_judges_takes_them_too(says, team, workspace, monkeypatch):
    """An agent's operation on the workspace, and a call of which there is no verdict."""
    says("high = {people = 2}")
    assert judge("Handrail.Delete", {}, None, workspace, team.pk).takes.people == 2
    monkeypatch.setattr("approvals.evaluation.workers.classify", Mock(side_effect=Late("late")))
    assert judge_or_ask("Bash", PUSH, None, workspace, team.pk).takes.people == 2


def test_a_question_takes_one_person(says, ask):
    says("high = {people = 2}")
    action = ask({"plan": "Go."}, tool="ExitPlanMode")
    assert (action.quorum, action.takes_one) == (1, True)


def test_many_at_once_and_lists_leave_them_out(says, ask, browser_of, bob):
    says('high = {role = "lead"}')
    waiting = [ask(PUSH, session=str(n)) for n in range(4)]
    form = {"verdict": "approve", "action": [f"{action.pk}:{action.digest}" for action in waiting]}
    browser_of(bob).post(f"/actions/{waiting[0].pk}/alike/", form)
    assert not Action.objects.exclude(decisions=None).exists()


def test_the_card_says_what_it_takes_and_what_is_missing(says, ask, decide, browser_of, bob, lena):
    says(CRITICAL)
    action, client = ask(FORCE), browser_of(bob)
    page = client.get(f"/actions/{action.pk}/").content.decode()
    assert "takes 2 people, one of them a lead" in page
    assert "takes 2 people, one of them a lead" in client.get("/waiting/").content.decode()
    decide(action, by=bob)
    assert "1 of 2 approved" in client.get("/waiting/").content.decode()
    page = client.get(f"/actions/{action.pk}/").content.decode()
    assert "You approved this. It needs one approval by a lead." in page
    assert "one approval by a lead" in browser_of(lena).get(f"/actions/{action.pk}/").content.decode()


def test_a_row_says_which_role_is_missing(says, ask, decide, browser_of, bob):
    says('high = {role = "lead"}')
    action, client = ask(PUSH), browser_of(bob)
    assert "takes a lead" in client.get("/waiting/").content.decode()
    decide(action, by=bob)
    assert "one approval by a lead" in client.get("/waiting/").content.decode()


def test_the_api_says_the_role(says, ask, api, token_of, bob):
    says(CRITICAL)
    action = ask(FORCE)
    answer = api(token_of(bob)).get(f"/api/v1/actions/{action.pk}").json()
    assert (answer["quorum"], answer["quorum_role"]) == (2, "lead")


def test_the_policy_page_says_who_approves(says, browser_of, lena):
    says(CRITICAL)
    page = browser_of(lena).get("/policy/").content.decode()
    assert "Critical: takes 2 people, one of them a lead" in " ".join(page.split())


@pytest.mark.parametrize(
    ("table", "why"),
    [
        ("critical = {people = 1}", "approvals.critical.people is a number from 2 to 10."),
        ("high = {people = 11}", "approvals.high.people is a number from 1 to 10."),
        ("high = {people = true}", "approvals.high.people is a number from 1 to 10."),
        ('high = {role = "reviewer"}', "approvals.high.role is one of lead and admin."),
        ("high = 2", "approvals.high says people, role and group"),
        ("high = {}", "approvals.high says people, role and group"),
        ("high = {count = 2}", "approvals.high says people, role and group"),
        ("low = {people = 1}", "approvals is a table of the tiers high and critical."),
        ("high = {people = 5}", "approvals.high takes 5 people, and 1 may approve in Payments."),
        ('critical = {role = "admin"}', "approvals.critical takes a person who is admin, and nobody in Payments is."),
    ],
)
def test_a_table_that_loosens_or_that_nobody_can_meet_is_refused(team, lena, person, table, why):
    text = with_table(table)
    with pytest.raises(Problem) as refused:
        policies.save(text, caller=person(lena), team=team)
    assert (refused.value.status, why in refused.value.detail) == (422, True), refused.value.detail


def test_one_that_can_be_met_is_saved(team, lena, bob, person):
    text = with_table(CRITICAL)
    assert policies.save(text, caller=person(lena), team=team).active

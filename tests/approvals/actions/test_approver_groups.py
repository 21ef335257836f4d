"""A policy can ask that one of a named group approves: two people, one of group dba."""

import pytest

from approvals.evaluation import approver_groups, policies
from approvals.models import ApproverGroup, Status
from approvals.policy import default_policy, load_policy
from approvals.policy.people import Takes
from dashboard.models import Event, Membership
from dashboard.problems import Problem

from ..conftest import FORCE, PUSH

pytestmark = pytest.mark.django_db


def text(table: str) -> str:
    return default_policy().replace("\n[[tests]]", f"\n[approvals]\n{table}\n\n[[tests]]", 1)


@pytest.fixture
def dba(team, person, alice, lena):
    """The group dba, with Lena alone."""
    return approver_groups.make(team, "dba", ["lena"], caller=person(alice))


@pytest.fixture
def says(team, person, alice):
    return lambda table: policies.save(text(table), caller=person(alice), team=team)


def test_two_people_of_whom_one_is_of_the_group(dba, says, ask, decide, bob, alice, lena):
    says('critical = {people = 2, group = "dba"}')
    action = ask(FORCE)
    assert action.takes == Takes(2, "", ("dba",))
    assert decide(action, by=bob).status == Status.PENDING
    assert decide(action, by=alice).status == Status.PENDING  # two people, and neither is in the group
    assert decide(action, by=lena).status == Status.APPROVED
    assert Event.objects.get(verb="action.approved").data["groups"] == ["dba"]


def test_a_tier_that_one_person_approves_can_take_one_of_the_group(dba, says, ask, decide, bob, lena):
    says('high = {group = ["dba"]}')
    action = ask(PUSH)
    assert (action.takes_one, decide(action, by=bob).status) == (False, Status.PENDING)
    assert decide(action, by=lena).status == Status.APPROVED


def test_one_of_each_group(dba, says, ask, decide, team, person, alice, bob, lena):
    approver_groups.make(team, "security", ["bob", "lena"], caller=person(alice))
    says('high = {group = ["dba", "security"]}')
    assert decide(ask(PUSH), by=lena).status == Status.APPROVED  # she is in both
    action = ask({"command": "git push origin two"})
    assert decide(action, by=bob).status == Status.PENDING
    assert decide(action, by=lena).status == Status.APPROVED


def test_who_is_in_the_group_counts_at_once(dba, says, ask, decide, person, alice, bob):
    says('high = {group = "dba"}')
    action = decide(ask(PUSH), by=bob)
    approver_groups.change(dba, ["bob", "lena"], caller=person(alice))
    assert decide(action, by=bob).status == Status.APPROVED


def test_who_left_the_team_is_in_no_group(dba, says, ask, decide, team, lena):
    Membership.objects.filter(team=team, user=lena).delete()
    with pytest.raises(Problem, match="names the group dba, in which nobody"):
        says('high = {group = "dba"}')


def test_a_policy_that_names_no_group_of_the_team_is_not_saved(says):
    with pytest.raises(Problem, match=r"approvals\.high names the group dba"):
        says('high = {group = "dba"}')


@pytest.mark.parametrize("group", ['""', '"two words"', "1", '["dba", 1]'])
def test_what_is_no_name_of_a_group(group):
    with pytest.raises(ValueError, match=r"approvals.high.group is the name of a group"):
        load_policy(f"[approvals]\nhigh = {{group = {group}}}\n")


def test_only_an_admin_makes_groups_of_people_who_may_approve(team, person, alice, lena, vera, dba):
    with pytest.raises(Problem, match="Only an admin"):
        approver_groups.make(team, "other", ["lena"], caller=person(lena))
    for name, people, status in (("dba", ["lena"], 409), ("1st", ["lena"], 422), ("x", ["vera"], 422), ("x", [], 422)):
        with pytest.raises(Problem) as refused:
            approver_groups.make(team, name, people, caller=person(alice))
        assert refused.value.status == status
    assert ApproverGroup.objects.count() == 1


def test_a_group_that_a_policy_names_stays(dba, says, person, alice):
    says('high = {group = "dba"}')
    with pytest.raises(Problem, match="asks for an approval of dba"):
        approver_groups.remove(dba, caller=person(alice))
    says("high = {people = 2}")
    approver_groups.remove(dba, caller=person(alice))
    assert Event.objects.filter(verb="approver_group.removed").count() == 1


def test_over_the_api(team, api, token_of, alice, bob, lena):
    client, path = api(token_of(alice)), "/api/v1/approver-groups"
    made = client.post(path, {"name": "dba", "people": ["lena"]}, content_type="application/json")
    assert (made.status_code, made.json()["people"]) == (201, ["lena"])
    one = f"{path}/{made.json()['id']}"
    assert client.put(one, {"people": ["bob", "lena"]}, content_type="application/json").json()["people"] == [
        "bob",
        "lena",
    ]
    assert [each["name"] for each in api(token_of(bob)).get(path).json()["groups"]] == ["dba"]
    assert api(token_of(lena)).delete(one).status_code == 403
    assert client.delete(one).status_code == 204


def test_the_page_shows_and_changes_them(dba, team, browser_of, alice, bob, lena):
    admin, reviewer = browser_of(alice), browser_of(bob)
    assert "Make the group" not in reviewer.get("/team/groups/").content.decode()
    assert reviewer.post(f"/team/groups/{dba.pk}/people/", {f"{dba.pk.hex}-people": ["bob"]}).status_code == 403
    admin.post(f"/team/groups/{dba.pk}/people/", {f"{dba.pk.hex}-people": ["bob"]})
    assert [person.get_username() for person in dba.people.all()] == ["bob"]
    page = admin.post("/team/groups/add/", {"name": "1st", "people": ["lena"]})
    assert "A group&#x27;s name begins with a letter" in page.content.decode()
    admin.post("/team/groups/add/", {"name": "security", "people": ["lena"]})
    admin.post(f"/team/groups/{dba.pk}/remove/")
    assert [group.name for group in ApproverGroup.objects.all()] == ["security"]


def test_the_card_says_who_is_missing(dba, says, ask, decide, browser_of, bob):
    says('critical = {people = 2, group = "dba"}')
    action = ask(FORCE)
    text = browser_of(bob).get(f"/actions/{action.pk}/").content.decode()
    assert "takes 2 people, one of the group dba" in text
    decide(action, by=bob)
    text = browser_of(bob).get(f"/actions/{action.pk}/").content.decode()
    assert "one more approval, one of the group dba" in text

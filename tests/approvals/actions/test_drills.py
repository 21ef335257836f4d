"""A drill waits like any other call, its first answer ends it, nothing runs, and who answered hears of it at once."""

from datetime import timedelta

import pytest

from approvals import tasks
from approvals.actions import drill_planting, drills, gate
from approvals.models import Action, Drill, Status
from dashboard.database import clock
from dashboard.models import Agent, Event
from dashboard.problems import Problem

pytestmark = pytest.mark.django_db


@pytest.fixture
def drill(team, alice):
    return drill_planting.plant(team, "script", "nightly-bot", by=alice)


@pytest.mark.parametrize("kind", drills.KINDS)
def test_each_kind_waits_for_a_person(team, alice, kind):
    action = drill_planting.plant(team, kind, "nightly-bot", by=alice).action
    assert (action.status, action.agent.name, action.workspace) == (Status.PENDING, "nightly-bot", None)


def test_an_approval_approves_nothing_and_ends_it(drill, decide, bob):
    action = decide(drill.action, by=bob)
    drill.refresh_from_db()
    assert (action.status, action.end_code, action.decided_at) == (Status.CANCELLED, "drill", None)
    assert (drill.outcome, drill.answered_by) == ("approved", bob)
    assert action.result["note"] == "This was a drill by alice: nothing would have run."


def test_one_of_two_people_ends_it_too(drill, decide, bob):
    assert drill.action.quorum == 2
    decide(drill.action, by=bob)
    drill.refresh_from_db()
    assert drill.outcome == "approved"


def test_a_denial_catches_it(drill, decide, bob):
    action = decide(drill.action, "deny", by=bob)
    drill.refresh_from_db()
    assert (action.status, drill.outcome, drill.answered_by) == (Status.DENIED, "caught", bob)


def test_an_answer_to_it_cannot_be_taken_back(drill, decide, bob, person):
    action = decide(drill.action, "deny", by=bob)
    assert not gate.may_take_back(action, person(bob))
    with pytest.raises(Problem):
        gate.take_back(action, caller=person(bob))


def test_a_second_answer_is_refused(drill, decide, bob, lena):
    decide(drill.action, by=bob)
    with pytest.raises(Problem) as refused:
        decide(drill.action, "deny", by=lena)
    assert refused.value.status == 409
    drill.refresh_from_db()
    assert drill.answered_by == bob


def test_the_log_names_it_once_it_has_ended(drill, decide, bob):
    assert not Event.objects.filter(verb="drill.ended").exists()
    decide(drill.action, by=bob)
    [event] = Event.objects.filter(verb="drill.ended")
    assert (event.actor_label, event.data["kind"], event.data["outcome"]) == ("alice", "script", "approved")
    assert "bob" not in str(event.data)


def test_one_that_nobody_answers_is_noted(drill):
    Action.objects.update(expires_at=clock.now() - timedelta(seconds=1))
    tasks.sweep()
    tasks.warn_owners()
    drill.refresh_from_db()
    assert (drill.outcome, drill.answered_by) == ("unanswered", None)


def test_an_agent_with_a_token_is_no_cover(team, alice, agent, agent_token):
    with pytest.raises(Problem) as refused:
        drill_planting.plant(team, "script", agent.name, by=alice)
    assert (refused.value.status, Drill.objects.count()) == (409, 0)


def test_where_nobody_would_be_asked_nothing_is_planted(team, alice, monkeypatch):
    forbidden = drills.Kind("Forbidden", "Bash", {"command": "mkfs.ext4 /dev/handrail-drill"}, "")
    monkeypatch.setitem(drills.KINDS, "forbidden", forbidden)
    with pytest.raises(Problem):
        drill_planting.plant(team, "forbidden", "nightly-bot", by=alice)
    assert (Action.objects.count(), Agent.objects.count()) == (0, 0)


# On pages ------------------------------------------------------------------------------------------------------------


def test_an_admin_plants_one_and_the_answer_says_so(team, alice, bob, browser_of):
    planted = browser_of(alice).post(
        "/drills/plant/?team=payments", {"kind": "refund", "agent": "shop-bot"}, follow=True
    )
    assert "Planted. It waits among the approvals" in planted.content.decode()
    action = Drill.objects.get().action
    browser = browser_of(bob)
    answered = browser.post(f"/actions/{action.pk}/approve/", {"digest": action.digest}, follow=True)
    assert "This was a drill, and nothing runs." in answered.content.decode()
    assert "The amount is in cents" in answered.content.decode()
    page = browser.get("/drills/").content.decode()
    assert ("A refund a hundred times too large" in page, "Plant one" in page) == (True, False)


def test_others_do_not_see_who_answered(drill, decide, alice, bob, browser_of):
    decide(drill.action, by=bob)
    page = browser_of(alice).get("/drills/").content.decode()
    assert ("bob" in page, "You have answered none." in page) == (False, True)


@pytest.mark.parametrize("who", ["bob", "lena", "vera"])
def test_only_admins_plant(team, who, request, browser_of):
    person = request.getfixturevalue(who)
    answer = browser_of(person).post("/drills/plant/?team=payments", {"kind": "script", "agent": "x"})
    assert (answer.status_code, Drill.objects.count()) == (403, 0)


def test_the_report_counts_drills_apart(drill, decide, bob, api, token_of, alice):
    decide(drill.action, by=bob)
    found = api(token_of(alice)).get("/api/v1/oversight").json()
    assert (found["attention"]["drills_approved"], found["decisions"]["approved"]) == (1, 0)

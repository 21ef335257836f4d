"""Snooze a card for oneself, ask one person by name, and a warning before a card expires that nobody has looked at."""

from datetime import timedelta

import pytest

from approvals.actions import attention
from approvals.models import Action, Snooze, Status
from dashboard.database import clock
from dashboard.models import Agent, Event, Team
from dashboard.problems import Problem

from ..conftest import PUSH

pytestmark = pytest.mark.django_db


def later(monkeypatch, **span):
    now = clock.now() + timedelta(**span)
    monkeypatch.setattr(clock, "now", lambda: now)
    return now


def listed(browser, action) -> bool:
    return f'id="action-{action.pk}"' in browser.get("/waiting/").content.decode()


def test_a_snoozed_card_is_hidden_from_one_person_and_comes_back(ask, browser_of, bob, lena, monkeypatch):
    action, bobs, lenas = ask(), browser_of(bob), browser_of(lena)
    page = bobs.post(f"/actions/{action.pk}/snooze/", {"minutes": "10"}, follow=True).content.decode()
    assert "Snoozed for you until" in page
    assert (listed(bobs, action), listed(lenas, action)) == (False, True)
    assert "Show it now" in bobs.get(f"/actions/{action.pk}/").content.decode()
    later(monkeypatch, minutes=11)
    assert listed(bobs, action)


def test_it_can_be_brought_back(ask, browser_of, bob):
    action, bobs = ask(), browser_of(bob)
    bobs.post(f"/actions/{action.pk}/snooze/", {"minutes": "10"})
    bobs.post(f"/actions/{action.pk}/wake/")
    assert (listed(bobs, action), Snooze.objects.count()) == (True, 0)


def test_it_comes_back_before_it_expires(ask, person, bob):
    action = ask()
    until = attention.snooze(action, caller=person(bob), minutes=600)
    assert until == action.expires_at - attention.BACK_BEFORE


def test_what_expires_within_minutes_stays(ask, person, bob):
    action = ask(expires_in_s=240)
    with pytest.raises(Problem) as refused:
        attention.snooze(action, caller=person(bob), minutes=1)
    assert refused.value.extra["code"] == "too_late"


def test_a_changed_call_is_back_at_once(ask, decide, person, browser_of, bob, lena):
    action = ask()
    attention.snooze(action, caller=person(bob), minutes=10)
    Action.objects.filter(pk=action.pk).update(quorum=2)
    decide(action, "edit", by=lena, arguments={"command": "git push --force origin main"})
    action.refresh_from_db()
    assert action.status == Status.PENDING
    assert listed(browser_of(bob), action)


def test_a_snooze_decides_nothing(ask, decide, person, bob, lena):
    action = ask()
    attention.snooze(action, caller=person(bob), minutes=10)
    assert decide(action, by=lena).status == Status.APPROVED
    with pytest.raises(Problem) as refused:
        attention.snooze(Action.objects.get(pk=action.pk), caller=person(bob), minutes=10)
    assert refused.value.status == 409


def test_a_viewer_and_an_agent_do_neither(ask, person, caller, vera, bob):
    action = ask()
    for who in (person(vera), caller):
        for do in (
            lambda who=who: attention.snooze(action, caller=who, minutes=10),
            lambda who=who: attention.pass_to(action, caller=who, name="bob"),
            lambda who=who: attention.wake(action, caller=who),
        ):
            with pytest.raises(Problem) as refused:
                do()
            assert refused.value.status == 403


# By name -------------------------------------------------------------------------------------------------------------


def test_who_is_asked_by_name_has_it_first(ask, browser_of, bob, lena):
    first, second = ask(PUSH, session="1"), ask({"command": "git push origin topic"}, session="2")
    Action.objects.filter(pk=second.pk).update(expires_at=second.expires_at + timedelta(hours=1))
    bobs = browser_of(bob)
    said = browser_of(lena).post(f"/actions/{second.pk}/pass/", {"to": "bob"}, follow=True).content.decode()
    assert "Passed to bob. Others may still decide." in said
    assert "asked of bob by name" in said
    page = bobs.get("/waiting/").content.decode()
    assert page.index(str(second.pk)) < page.index(str(first.pk))
    assert "asked of you by name" in page
    event = Event.objects.get(verb="action.passed")
    assert (event.actor_label, event.data["to"]) == ("lena", "bob")
    page = browser_of(lena).get("/waiting/").content.decode()
    assert page.index(str(first.pk)) < page.index(str(second.pk))


def test_others_may_still_decide(ask, decide, person, bob, lena, alice):
    action = ask()
    attention.pass_to(action, caller=person(lena), name="bob")
    assert decide(action, by=alice).status == Status.APPROVED


def test_only_who_may_approve_it_is_asked(ask, person, agent, team, vera, mallory, bob, lena):
    action = ask()
    Agent.objects.filter(pk=agent.pk).update(owner=bob)
    Team.objects.filter(pk=team.pk).update(owner_may_approve=False)
    action = Action.objects.get(pk=action.pk)
    for name in ("vera", "mallory", "nobody", "bob"):  # the agent is Bob's own
        with pytest.raises(Problem) as refused:
            attention.pass_to(action, caller=person(lena), name=name)
        assert refused.value.status == 422
    assert [user.get_username() for user in attention.may_be_asked(action)] == ["lena"]


def test_the_api_snoozes_wakes_and_passes(ask, post, api, token_of, bob, lena):
    action, token = ask(), token_of(lena)
    at = f"/api/v1/actions/{action.pk}"
    status, answer = post(token, f"{at}/snooze", {"minutes": 10})
    assert (status, list(answer)) == (200, ["until"])
    assert Snooze.objects.get().user == lena
    assert api(token).delete(f"{at}/snooze").status_code == 204
    assert not Snooze.objects.exists()
    status, answer = post(token, f"{at}/pass", {"to": "bob"})
    assert (status, answer["asked_of"]) == (200, "bob")

"""Deciding from a filtered list keeps the filters, the order and the way back."""

import re
from datetime import timedelta

import pytest

from approvals.models import Action, Status
from dashboard.database import clock

from .conftest import PUSH


def link(text: str, words: str) -> str:
    return re.search(rf'href="([^"]*)"[^>]*>(?:<svg.*?</svg>)?{words}', text, re.DOTALL)[1].replace("&amp;", "&")


def asked_in_order(ask, count: int) -> list[Action]:
    """Some that expire one after the other, in a list with one of another kind that expires first."""
    made = [ask({"command": f"git push origin {'abc'[number]}"}) for number in range(count)]
    for number, action in enumerate(made):
        Action.objects.filter(pk=action.pk).update(expires_at=clock.now() + timedelta(minutes=10 + number))
    plan = ask({"plan": "Tidy up"}, tool="ExitPlanMode")
    Action.objects.filter(pk=plan.pk).update(expires_at=clock.now() + timedelta(minutes=1))
    return made


def test_the_next_card_after_a_decision_is_of_the_same_filters(ask, bob, browser_of, read):
    first, second, third = asked_in_order(ask, 3)
    client = browser_of(bob)
    rows = read(client, "/waiting/?undo=no")
    assert f"/actions/{second.pk}/?undo=no" in rows
    card = read(client, f"/actions/{second.pk}/?undo=no")
    assert f'action="/actions/{second.pk}/deny/?undo=no"' in card
    assert 'href="/waiting/?undo=no"' in card
    answer = client.post(f"/actions/{second.pk}/approve/?undo=no", {"digest": second.digest})
    assert answer.headers["Location"] == f"/actions/{third.pk}/?undo=no"
    answer = client.post(f"/actions/{third.pk}/deny/?undo=no", {"digest": third.digest})
    assert answer.headers["Location"] == f"/actions/{first.pk}/?undo=no"
    answer = client.post(f"/actions/{first.pk}/deny/?undo=no", {"digest": first.digest})
    assert answer.headers["Location"] == "/waiting/?undo=no"


def test_skipping_goes_through_the_whole_list_and_begins_again(ask, bob, browser_of, read):
    made = asked_in_order(ask, 2)
    client, seen = browser_of(bob), []
    address = f"/actions/{made[0].pk}/"
    for _ in range(3):
        seen.append(address)
        address = link(read(client, address), "Skip to the next")
    assert (len(set(seen)), address) == (3, seen[0])
    assert set(Action.objects.values_list("status", flat=True)) == {Status.PENDING}


def test_extend_says_until_when(ask, bob, browser_of):
    action = ask(PUSH)
    Action.objects.filter(pk=action.pk).update(expires_at=clock.now() + timedelta(minutes=1))
    text = browser_of(bob).post(f"/actions/{action.pk}/extend/", follow=True).content.decode()
    assert "Extended. It now expires at" in text


@pytest.mark.parametrize("header", ["X-Handrail-Refresh", "HX-Request"])
def test_a_notice_is_left_to_the_page_that_is_opened_next(ask, bob, browser_of, header):
    action = ask(PUSH)
    client = browser_of(bob)
    client.post(f"/actions/{action.pk}/extend/")
    refreshed = client.get(f"/actions/{action.pk}/", headers={header: "true"}).content.decode()
    opened = client.get(f"/actions/{action.pk}/").content.decode()
    assert ("Extended. It now expires at" in refreshed, "Extended. It now expires at" in opened) == (False, True)


@pytest.mark.parametrize("header", ["X-Handrail-Refresh", "HX-Request"])
@pytest.mark.parametrize(("address", "back"), [("/agents/add/", "/agents/"), ("/connect/token/", "/connect/")])
def test_a_new_token_is_left_to_the_page_that_is_opened_next(lena, browser_of, team, header, address, back):
    client = browser_of(lena)
    client.post(address, {"team": team.slug, "name": "new-agent"})
    plain = client.session["new_token"]["plain"]
    refreshed = client.get(back, headers={header: "true"}).content.decode()
    opened = client.get(back).content.decode()
    assert (plain in refreshed, plain in opened) == (False, True)


@pytest.mark.parametrize("header", ["X-Handrail-Refresh", "HX-Request"])
def test_a_new_key_of_a_log_target_is_left_to_the_page_that_is_opened_next(alice, browser_of, team, header):
    client = browser_of(alice)
    wanted = {"team": team.slug, "kind": "webhook", "address": "https://logs.example/hook"}
    client.post("/log/targets/add/", wanted)
    key = client.session["log_target_key"]
    refreshed = client.get("/log/targets/", headers={header: "true"}).content.decode()
    opened = client.get("/log/targets/").content.decode()
    assert (key in refreshed, key in opened) == (False, True)


def test_a_page_that_reads_itself_again_leaves_no_notice(ask, bob, browser_of):
    action = ask(PUSH)
    client, edit = browser_of(bob), f"/actions/{action.pk}/edit/"
    wanted = {"digest": action.digest, "command": "git push origin staging", "comment": "", "approve": "1"}
    decided = client.post(edit, wanted)
    assert client.get(edit, headers={"X-Handrail-Refresh": "1"}).status_code == 302
    opened = client.get(decided.headers["Location"]).content.decode()
    assert ("Changed and approved" in opened, "can no longer be changed" in opened) == (True, False)


def test_a_desk_that_nobody_looks_at_is_no_visit(bob, browser_of, team):
    client = browser_of(bob)
    client.get("/", headers={"X-Handrail-Refresh": "hidden"})
    assert team.memberships.get(user=bob).desk_seen_at is None
    client.get("/", headers={"X-Handrail-Refresh": "1"})
    assert team.memberships.get(user=bob).desk_seen_at is not None

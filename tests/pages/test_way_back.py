"""The card says whether what a call does outside can be undone there, and one button asks for that."""

import pytest

from approvals.actions import way_back_search
from approvals.models import Action, Status, WayBack, WayBackState
from dashboard.database import clock
from dashboard.models import Event

from .conftest import PUSH

REF = {"do": "put_back", "remote": "https://git.example.org/a/b", "ref": "refs/heads/main", "to": "41c2e9a" + 33 * "0"}
CALL = {"tool": "Handrail.TakeBack", "arguments": {"action": "A-1", "title": "t", "steps": [REF | {"if_at": 40 * "b"}]}}
WORDS = "puts main back to 41c2e9a if nobody pushed meanwhile"


def card(action) -> str:
    return f"/actions/{action.pk}/"


@pytest.fixture
def pushed(ask, workspace):
    """An action with a way back, as the runner notes it; `state` as of one that is over, unless it waits."""

    def make(state=WayBackState.READY, **found):
        action = ask(PUSH, workspace=workspace)
        if state == WayBackState.READY:
            ran = {"status": Status.SUCCEEDED, "consumed_at": clock.now(), "ended_at": clock.now()}
            Action.objects.filter(pk=action.pk).update(**ran)
        steps = CALL["arguments"]["steps"]
        told = {"state": state, "title": WORDS, "call": CALL, "steps": steps} | found
        action = Action.objects.get(pk=action.pk)
        way_back_search.note(action, told, by=way_back_search.HANDRAIL)
        return action

    return make


def test_before_the_decision_the_card_says_what_would_take_it_back(pushed, bob, browser_of, read):
    action = pushed(WayBackState.FOUND)
    text = read(browser_of(bob), card(action))
    assert f"Can be undone outside: it {WORDS}." in text
    assert ("Can't be undone outside" in text, "Undo outside…" in text) == (False, False)
    assert "Can be undone outside." in read(browser_of(bob), card(action) + "approve/")
    assert card(action) in read(browser_of(bob), "/waiting/?undo=outside")
    assert card(action) not in read(browser_of(bob), "/waiting/?undo=no")


def test_what_cannot_be_taken_back_says_why_in_the_same_place(pushed, bob, browser_of, read):
    action = pushed(WayBackState.NONE, call=None, steps=[], title="", why_not="A merge can't be taken back by a call.")
    text = read(browser_of(bob), card(action))
    assert "Can't be undone outside: A merge can't be taken back by a call." in text.replace("&#x27;", "'")
    assert Action.objects.get(pk=action.pk).undo == "no"


def test_what_is_left_out_is_said_and_the_action_is_not_undone_outside(pushed, bob, browser_of, read):
    action = pushed(WayBackState.FOUND, why_not="gh pr merge 5: it stays.")
    text = read(browser_of(bob), card(action))
    assert ("Not undone by that: gh pr merge 5: it stays." in text, Action.objects.get(pk=action.pk).undo) == (
        True,
        "no",
    )


def test_the_button_asks_for_it_on_a_card_of_its_own_once(pushed, bob, browser_of, read):
    action, client = pushed(), browser_of(bob)
    text = read(client, card(action))
    assert (f"it {WORDS}" in text, f"{card(action)}compensate/" in text) == (True, True)
    answer = client.post(f"{card(action)}compensate/")
    made = Action.objects.get(compensates=action)
    assert (answer.headers["Location"], made.status, made.tool) == (card(made), Status.PENDING, "Handrail.TakeBack")
    assert client.post(f"{card(action)}compensate/").headers["Location"] == card(made)
    assert f"A-{action.number}</a>." in read(client, card(made))
    text = read(client, card(action))
    assert (f">A-{made.number}</a>" in text, "Undo outside…" in text) == (True, False)
    said = Event.objects.get(verb="action.compensation_asked")
    assert (said.actor_label, said.data["action"]) == (bob.get_username(), str(made.pk))
    assert Event.objects.get(verb="action.submitted", subject_id=str(made.pk)).actor_label == bob.get_username()


def test_a_viewer_has_no_button_and_may_not_ask(pushed, vera, browser_of, read):
    action, viewer = pushed(), browser_of(vera)
    assert "Undo outside…" not in read(viewer, card(action))
    assert viewer.post(f"{card(action)}compensate/").status_code == 403
    assert Action.objects.filter(compensates=action).count() == 0


def test_the_title_of_a_step_that_an_agent_named_is_shown_with_its_hidden_characters(pushed, bob, browser_of, read):
    steps = [REF | {"ref": "refs/heads/ma\u202ein", "if_at": 40 * "b"}]
    action = pushed(WayBackState.FOUND, steps=steps)
    text = read(browser_of(bob), card(action))
    assert "\u202e" not in text


def test_undo_follows_the_way_back(pushed):
    assert pushed().undo == "outside"
    assert WayBack.objects.get().call == CALL

"""Every place that says whether an action can be undone has the third value: outside, neither inside nor never."""

import pytest

from approvals.actions import way_back_search
from approvals.models import UNDO, Action, WayBackState
from approvals.models.notices import NotificationSettings
from approvals.notify import messages
from approvals.pages.alike import PROSPECTS
from dashboard.text.labels import UNDO as WORDS

from .conftest import LIST, PUSH
from .test_way_back import CALL
from .test_way_back import WORDS as TITLE

SAYS = "Can be undone outside"


@pytest.fixture
def outside(ask, workspace) -> Action:
    """A push that waits, whose way back was found."""
    action = Action.objects.get(pk=ask(PUSH, workspace=workspace).pk)
    found = {"state": WayBackState.FOUND, "title": TITLE, "call": CALL, "steps": CALL["arguments"]["steps"]}
    way_back_search.note(action, found, by=way_back_search.HANDRAIL)
    return Action.objects.get(pk=action.pk)


@pytest.mark.parametrize(
    "path", ["{card}", "{card}approve/", "/waiting/", "/waiting/?undo=outside", "/actions/?undo=outside"]
)
def test_a_page_says_it(outside, bob, browser_of, read, path):
    text = read(browser_of(bob), path.format(card=f"/actions/{outside.pk}/"))
    assert SAYS in text
    assert "Can&#x27;t be undone." not in text


def test_history_and_the_api_are_narrowed_to_each_value(
    outside, ask, workspace, bob, browser_of, read, api, agent_token
):
    other = ask(LIST, workspace=workspace)
    for undo in UNDO:
        found = api(agent_token).get(f"/api/v1/actions?undo={undo}").json()["actions"]
        wanted = [str(each.pk) for each in Action.objects.filter(undo=undo)]
        assert [each["id"] for each in found] == wanted
        page = read(browser_of(bob), f"/actions/?undo={undo}")
        assert [f"/actions/{each.pk}/" in page for each in (outside, other)] == [
            each.undo == undo for each in (outside, other)
        ]
    assert api(agent_token).get("/api/v1/actions?undo=maybe").status_code == 422


def test_the_api_says_it_with_the_call(outside, api, agent_token):
    told = api(agent_token).get(f"/api/v1/actions/{outside.pk}").json()
    assert (told["undo"], told["compensation"]["title"]) == ("outside", TITLE)


def test_a_notification_says_it(outside, bob):
    title = messages.ask(outside, NotificationSettings(user=bob), private=False)["title"]
    assert "can be undone outside" in title


def test_there_are_words_for_each_value_wherever_one_is_put_into_words():
    assert set(UNDO) <= set(WORDS)
    assert set(UNDO) <= set(PROSPECTS)
    assert len({str(words) for words, *_ in WORDS.values()}) == len(WORDS)

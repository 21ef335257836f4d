"""A request that follows a denial shows the words said and what the agent changed; both cards link to each other."""

import re
from html import unescape
from time import process_time

import pytest

from approvals.models import Action
from approvals.pages.revised import MAX_COMPARED, word_diff
from dashboard.database import clock

from .conftest import tight

SESSION = "one-conversation"
FIRST, SECOND = {"command": "git push --force origin main"}, {"command": "git push origin main"}


def card(action) -> str:
    return f"/actions/{action.pk}/"


@pytest.fixture
def denied(ask, decide, bob, workspace):
    action = ask(FIRST, workspace=workspace, session=SESSION)
    decide(action, "deny", by=bob, comment="pull rebase first")
    return action


@pytest.fixture
def follows(browser_of, bob, read, denied):
    """`follows(action)`: whether its card is shown as a revision of the denied one."""

    def look(action):
        page = tight(read(browser_of(bob), card(action)))
        return f'denied<a href="{card(denied)}">A-{denied.number}</a>' in page

    return look


def test_the_next_like_call_shows_the_words_and_what_changed(ask, denied, bob, browser_of, read, workspace):
    again = ask(SECOND, workspace=workspace, session=SESSION)
    page = tight(read(browser_of(bob), card(again)))
    part = page[page.index('aria-label="Asked again after a denial"') :]
    part = part[: part.index("</section>")]
    assert f'bob denied<a href="{card(denied)}">A-{denied.number}</a>' in part
    assert "pull rebase first" in part
    assert re.findall("<(del|ins)>(.*?)</", part) == [("del", "--force")]
    earlier = tight(read(browser_of(bob), card(denied)))
    assert f'The agent asked again:<a href="{card(again)}">A-{again.number}</a>' in earlier


def test_the_same_call_again_is_said_to_be_the_same(ask, denied, bob, browser_of, read, workspace):
    Action.objects.filter(pk=denied.pk).update(agent_seen_at=clock.now())  # else its answer is that denial
    again = ask(FIRST, workspace=workspace, session=SESSION)
    assert again.pk != denied.pk
    assert "Nothing was changed: it is the same call." in read(browser_of(bob), card(again))


def test_calls_of_other_sessions_programs_and_tools_follow_nothing(ask, follows, workspace):
    assert follows(ask({"command": "git push origin HEAD:dev"}, workspace=workspace, session=SESSION))
    assert not follows(ask(SECOND, workspace=workspace, session="another"))
    assert not follows(ask(SECOND, session=SESSION))
    assert not follows(ask({"command": "npm install lodash"}, workspace=workspace, session=SESSION))
    assert not follows(ask({"charge": "ch_1"}, tool="mcp__a__b", workspace=workspace, session=SESSION))


def test_a_request_made_before_the_denial_does_not_follow_it(ask, decide, bob, browser_of, read, workspace):
    first = ask(FIRST, workspace=workspace, session=SESSION)
    second = ask(SECOND, workspace=workspace, session=SESSION)
    decide(first, "deny", by=bob, comment="pull rebase first")
    assert "denied<a" not in tight(read(browser_of(bob), card(second)))
    assert "The agent asked again:" not in tight(read(browser_of(bob), card(first)))


def test_words_that_would_hide_are_shown_as_marks():
    shown = word_diff("echo a", "echo <b>\u202e\u200b")
    assert "<b>" not in shown
    assert "\u202e" not in shown
    bare = re.sub(r'<span[^>]*data-bytes="([0-9a-f]+)"[^>]*>.*?</span>', _bytes, re.sub("<del>.*?</del>", "", shown))
    assert unescape(re.sub("</?ins>", "", bare)) == "echo <b>\u202e\u200b"


def _bytes(mark) -> str:
    return bytes.fromhex(mark[1]).decode()


def test_a_long_call_is_not_compared_and_a_hostile_one_takes_little_time():
    assert word_diff("a " * MAX_COMPARED, "b") is None
    begun = process_time()
    assert word_diff("a " * (MAX_COMPARED // 2), "b " * (MAX_COMPARED // 2)) is not None
    assert process_time() - begun < 1

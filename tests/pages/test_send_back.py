"""*Do this first…* on a card: the call goes back with words, and the next one comes as a revision of it."""

import re

import pytest

from approvals.actions.agent_messages import refusal
from approvals.models import Action, Status
from dashboard.database import clock
from dashboard.models import Event

from .conftest import FORCE, PUSH, tight

WORDS = "Pull with rebase"
SESSION = "one-conversation"


def card(action) -> str:
    return f"/actions/{action.pk}/"


@pytest.fixture
def asked(ask, workspace):
    return ask(PUSH, workspace=workspace, session=SESSION)


@pytest.fixture
def send_back(browser_of):
    """`send_back(action, by=bob)`: what the step on the card sends."""

    def send(action, *, by, text=WORDS, digest=None):
        return browser_of(by).post(f"{card(action)}first/", {"digest": digest or action.digest, "text": text})

    return send


def heard(action):
    Action.objects.filter(pk=action.pk).update(agent_seen_at=clock.now())


def test_the_step_stands_on_the_card_and_on_a_page_of_its_own(asked, bob, browser_of, read):
    page = read(browser_of(bob), card(asked))
    assert f'href="{card(asked)}first/"' in page
    assert page.count("Do this first…") == 2  # of Deny and of Ask
    step = read(browser_of(bob), f"{card(asked)}first/")
    assert f'action="{card(asked)}first/"' in step
    assert "What the agent should do first" in step


def test_the_call_goes_back_with_the_words(asked, bob, send_back, browser_of, read):
    assert send_back(asked, by=bob).status_code == 302
    asked.refresh_from_db()
    given = asked.decisions.get()
    assert (asked.status, given.verdict, given.do_first, given.comment) == (Status.DENIED, "deny", True, WORDS)
    assert Event.objects.filter(verb="action.sent_back", subject_id=str(asked.pk)).count() == 1
    page = read(browser_of(bob), card(asked))
    assert "Sent back" in page
    assert f'First: <q class="exact">{WORDS}</q>' in page


def test_its_agent_hears_that_it_may_ask_again(asked, bob, send_back, api, agent_token):
    send_back(asked, by=bob)
    told = api(agent_token).get(f"/api/v1/actions/{asked.pk}").json()
    assert told["decision"] | {"decided_at": ""} == {
        "verdict": "deny",
        "by": "bob",
        "comment": WORDS,
        "do_first": True,
        "edited": False,
        "decided_at": "",
    }
    asked.refresh_from_db()
    assert refusal(asked) == (
        "bob did not approve this yet. First do this: Pull with rebase. Then make this call again, changed if that "
        "needs it: it is shown as a revision of this one."
    )


def test_the_next_like_call_is_a_revision_with_what_was_done_between(
    ask, asked, bob, send_back, browser_of, read, workspace
):
    send_back(asked, by=bob)
    heard(asked)
    between = ask({"command": "git pull --rebase"}, workspace=workspace, session=SESSION)
    again = ask(PUSH, workspace=workspace, session=SESSION)
    page = tight(read(browser_of(bob), card(again)))
    part = page[page.index('aria-label="Asked again after a denial"') :]
    part = part[: part.index("</section>")]
    assert f'bob sent back<a href="{card(asked)}">A-{asked.number}</a>' in part
    assert WORDS in part
    assert re.findall('<li><a href="([^"]*)">', part) == [card(between)]
    assert "Nothing was changed: it is the same call." in part


def test_without_a_call_between_it_says_so(ask, asked, bob, send_back, browser_of, read, workspace):
    send_back(asked, by=bob)
    again = ask(FORCE, workspace=workspace, session=SESSION)
    assert "In between it asked for nothing." in read(browser_of(bob), card(again))


def test_recent_words_are_at_hand_in_the_step_they_were_given_in(ask, decide, asked, bob, send_back, browser_of, read):
    send_back(asked, by=bob)
    other = ask({"command": "curl https://example.org/a"})
    decide(other, "deny", by=bob, comment="Not today")
    third = ask({"command": "curl https://example.org/b"})
    first, deny = (read(browser_of(bob), f"{card(third)}{step}/") for step in ("first", "deny"))
    assert re.findall('data-reason="([^"]*)"', first) == [WORDS]
    assert re.findall('data-reason="([^"]*)"', deny) == ["Not today"]


def test_a_send_back_can_be_undone_until_the_agent_has_it(asked, bob, send_back, browser_of):
    send_back(asked, by=bob)
    assert browser_of(bob).post(f"{card(asked)}undo/").status_code == 302
    asked.refresh_from_db()
    assert asked.status == Status.PENDING
    assert not asked.decisions.exists()


@pytest.mark.parametrize("text", ["", " \n"])
def test_a_send_back_takes_a_message(asked, bob, send_back, text):
    assert send_back(asked, by=bob, text=text).status_code == 422
    asked.refresh_from_db()
    assert asked.status == Status.PENDING


def test_a_send_back_answers_the_call_that_was_on_the_card(asked, bob, send_back):
    assert send_back(asked, by=bob, digest="0" * 64).status_code == 409
    asked.refresh_from_db()
    assert asked.status == Status.PENDING


def test_only_who_decides_sends_back(asked, vera, mallory, send_back):
    assert send_back(asked, by=vera).status_code == 403
    assert send_back(asked, by=mallory).status_code == 404


@pytest.mark.parametrize(
    ("tool", "arguments", "body"),
    [
        ("Bash", PUSH, {"verdict": "approve", "comment": WORDS}),
        ("Bash", PUSH, {"verdict": "deny"}),
        ("ExitPlanMode", {"plan": "Tidy up"}, {"verdict": "deny", "comment": WORDS}),
    ],
)
def test_the_api_takes_it_with_a_denial_of_a_call_only(ask, bob, api, token_of, tool, arguments, body):
    action = ask(arguments, tool=tool)
    sent = body | {"digest": action.digest, "do_first": True}
    answer = api(token_of(bob)).post(f"/api/v1/actions/{action.pk}/decision", sent, "application/json")
    assert answer.status_code == 422
    action.refresh_from_db()
    assert action.status == Status.PENDING

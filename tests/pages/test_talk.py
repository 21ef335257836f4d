"""The page on which people write to an agent and interrupt it."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from approvals.actions import interrupts
from approvals.models import AgentMessage, Interrupt
from approvals.sessions import messages
from dashboard.database import clock
from dashboard.models import Event
from dashboard.people.access import caller_by_token, caller_of
from dashboard.people.tokens import find_token

from .conftest import PUSH
from .test_hostile import HOSTILE


@pytest.fixture
def page(agent):
    return f"/agents/{agent.pk}/talk/?session=s1"


@pytest.fixture
def send(agent, browser_of, bob):
    """`send("talk", text="…")`: the form of that name, as bob sends it."""

    def post(form, client=None, **fields):
        address = f"/agents/{agent.pk}/{form}/"
        return (client or browser_of(bob)).post(address, {"session": "s1", **fields})

    return post


# It works ------------------------------------------------------------------------------------------------------------


def test_a_message_says_what_is_known_of_it(send, read, browser_of, bob, page, agent_token):
    assert send("talk", text="Pull first.").headers["Location"] == page
    client = browser_of(bob)
    assert "Not read yet" in read(client, page)
    caller = caller_by_token(find_token(agent_token))
    claimed = messages.claim(caller, "s1")
    assert "Not read yet" in read(client, page)
    messages.mark_given(claimed, messages.HOOK, by=caller.actor)
    text = read(client, page)
    assert "Not read yet" not in text
    assert "Given to the agent at" in text
    assert "with its next step" in text


def test_the_newest_message_stands_first_below_the_form(send, read, browser_of, bob, page):
    for text in ("Pull first.", "Then test."):
        send("talk", text=text)
    content = browser_of(bob).get(page).content.decode()
    assert content.index('id="talk-form"') < content.index("Then test.") < content.index("Pull first.")


def test_a_message_of_the_api_is_given_before_it_is_acknowledged(send, read, browser_of, bob, page, agent_token):
    send("talk", text="Pull first.")
    caller = caller_by_token(find_token(agent_token))
    messages.mark_given(messages.unread(caller, "s1"), messages.API, by=caller.actor)
    assert "not acknowledged yet" in read(browser_of(bob), page)
    messages.acknowledge(AgentMessage.objects.get(), caller=caller)
    assert "Acknowledged by the agent at" in read(browser_of(bob), page)


def test_a_claim_whose_response_was_never_sent_is_free_again(send, agent_token):
    send("talk", text="Pull first.")
    caller = caller_by_token(find_token(agent_token))
    assert len(messages.claim(caller, "s1")) == 1
    assert messages.claim(caller, "s1") == []
    AgentMessage.objects.update(claimed_at=clock.now() - messages.CLAIM - timedelta(seconds=1))
    assert len(messages.claim(caller, "s1")) == 1


def test_an_interrupt_shows_what_it_did_and_can_be_lifted(send, ask, read, browser_of, bob, page):
    action = ask(PUSH, session="s1")
    client = browser_of(bob)
    assert f"A-{action.number}" in read(client, page)
    send("interrupt", reason="Frozen.", minutes="10")
    action.refresh_from_db()
    assert (action.status, action.end_code) == ("cancelled", "interrupted")
    made = Interrupt.objects.get()
    assert made.until - made.at == timedelta(minutes=10)
    text = read(client, page)
    assert "The agent was not told yet" in text
    assert f'href="/actions/{action.pk}/"' in text
    assert "Interrupt this session" not in text
    send("go-on", interrupt=str(made.pk))
    text = read(client, page)
    assert "bob let it go on at" in text
    assert "Let it go on</button>" not in text
    verbs = Event.objects.filter(verb__startswith="agent.").values_list("verb", flat=True)
    assert list(verbs.order_by("seq")) == ["agent.interrupted", "agent.go_on"]


def test_an_interrupt_whose_time_is_over_says_so(send, read, browser_of, bob, page):
    send("interrupt")
    Interrupt.objects.update(until=clock.now())
    text = read(browser_of(bob), page)
    assert "It ended by itself at" in text
    assert "The agent was not told." in text
    assert "Interrupt this session" in text


def test_the_card_and_the_agents_page_lead_there(ask, agent, read, browser_of, bob):
    action, client = ask(PUSH, session="s 1/é"), browser_of(bob)
    assert f'href="/agents/{agent.pk}/talk/?session=s%201%2F%C3%A9"' in read(client, f"/actions/{action.pk}/")
    assert f'href="/agents/{agent.pk}/talk/"' in read(client, "/agents/")


def test_sessions_of_the_last_day_are_named(ask, agent, read, browser_of, bob):
    for name in ("morning", "evening"):
        ask(PUSH, session=name)
    text = read(browser_of(bob), f"/agents/{agent.pk}/talk/")
    assert "?session=morning" in text
    assert "?session=evening" in text


# Who may not ---------------------------------------------------------------------------------------------------------


def test_a_viewer_reads_and_a_stranger_finds_nothing(send, read, browser_of, vera, mallory, page):
    send("talk", text="Pull first.")
    text = read(browser_of(vera), page)
    assert "Pull first." in text
    assert "<textarea" not in text
    assert browser_of(mallory).get(page).status_code == 404
    for who, status in ((vera, 403), (mallory, 404)):
        for form in ("talk", "interrupt", "go-on"):
            assert send(form, browser_of(who), text="x").status_code == status
    assert AgentMessage.objects.count() == 1
    assert not Interrupt.objects.exists()


def test_another_agents_interrupt_is_not_lifted_here(send, team, bob):
    other = type(team).objects.get(pk=team.pk).agents.create(name="other")
    made = interrupts.interrupt(other, session="", caller=caller_of(bob))
    assert send("go-on", interrupt=str(made.pk)).status_code == 404
    assert send("go-on", interrupt="x").status_code == 404
    assert Interrupt.objects.get().lifted_at is None


# What is refused -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "   ", "x" * 4001])
def test_an_empty_or_long_message_is_not_kept(send, text):
    send("talk", text=text)
    assert not AgentMessage.objects.exists()


def test_an_interrupt_is_not_doubled(send):
    send("interrupt")
    send("interrupt")
    assert Interrupt.objects.count() == 1


# What must not happen ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("payload", HOSTILE)
def test_what_stands_there_is_text(send, ask, agent, read, browser_of, bob, payload):
    ask({"command": f"git push origin {payload}"}, session=payload[:200])
    type(agent).objects.filter(pk=agent.pk).update(name=payload[:80])
    client = browser_of(bob)
    client.post(f"/agents/{agent.pk}/talk/", {"session": payload[:200], "text": payload})
    client.post(f"/agents/{agent.pk}/interrupt/", {"session": payload[:200], "reason": payload})
    for address in (f"/agents/{agent.pk}/talk/", "/agents/", "/log/"):
        text = read(client, address)
        main = text[text.index("<main") : text.index("</main>")]
        assert "<script>alert" not in text, address
        assert "<img src=x" not in main, address
        assert "\u202e" not in text, address
        assert "\x1b" not in text, address


def test_more_rows_cost_no_more_queries(send, ask, agent, browser_of, bob):
    client = browser_of(bob)
    address = f"/agents/{agent.pk}/talk/"

    def cost() -> int:
        with CaptureQueriesContext(connection) as found:
            client.get(address)
        return len(found)

    def fill(number):
        ask({"command": f"git push origin b{number}"}, session=f"n{number}")
        send("talk", text=f"{number}")
        made = interrupts.interrupt(agent, session=f"n{number}", caller=caller_of(bob))
        ask({"command": f"git push origin c{number}"}, session=f"m{number}")
        return made

    for number in range(5):  # a session first heard of after an interrupt is refused
        for session in (f"n{number}", f"m{number}"):
            ask({"command": f"git push origin a{number}"}, session=session)
    interrupts.lift(fill(0), caller=caller_of(bob))
    fill(1)
    cost()  # the first page of a session writes the session down
    few = cost()
    for number in range(2, 5):
        fill(number)
    assert cost() == few

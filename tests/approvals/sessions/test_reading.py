"""Conversations over pages, API, exports and search: who sees which, in what order, and how each call leads on."""

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from approvals.agents.lines import Line
from approvals.models import Action, AgentSession, Message
from approvals.sessions import rows
from approvals.sessions.rows import INLINE
from dashboard.models import Token
from dashboard.people.tokens import make_token

from .conftest import CALL, before, told

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def short_hold(settings):
    settings.HANDRAIL_HOLD_SECONDS = 0.2


@pytest.fixture
def spoken(hook, agent_token, workspace):
    """A turn in a workspace: prompt, call, long result, answer. Returns its session."""
    headers = [("X-Handrail-Workspace", workspace.key)]
    result = {"hook_event_name": "PostToolUse", "tool_response": {"stdout": "x" * (INLINE + 1), "stderr": ""}}
    events = [told("UserPromptSubmit", prompt="Count\u202e them"), before(CALL), before(CALL) | result]
    for event in [*events, told("Stop", last_assistant_message="There are ```three```.")]:
        hook(agent_token, event, headers=headers)
    return AgentSession.objects.get()


def text_of(client, address) -> str:
    response = client.get(address)
    assert response.status_code == 200, (address, response.status_code)
    return b"".join(response).decode() if response.streaming else response.content.decode()


def test_the_page_shows_the_turn_and_each_call_leads_to_its_card(spoken, browser_of, bob):
    client, action = browser_of(bob), Action.objects.get()
    page = text_of(client, f"/conversations/{spoken.pk}/")
    assert page.count('class="said-message"') == 4
    assert page.index("message-1") < page.index("message-2") < page.index("message-4")
    assert f'href="/actions/{action.pk}/"' in page
    assert "\u202e" not in page
    assert f'href="/conversations/{spoken.pk}/3/"' in page
    assert text_of(client, f"/conversations/{spoken.pk}/3/") == "x" * (INLINE + 1)
    found = client.get(f"/actions/{action.pk}/conversation/")
    assert found.headers["Location"] == f"/conversations/{spoken.pk}/?upto=2#message-2"
    assert f'href="/actions/{action.pk}/conversation/"' in text_of(client, f"/actions/{action.pk}/")
    assert text_of(client, f"/conversations/{spoken.pk}/?upto=2").count('class="said-message"') == 2


def test_a_session_is_listed_for_its_workspace_and_its_agent(spoken, browser_of, bob, agent, workspace):
    client, link = browser_of(bob), f'href="/conversations/{spoken.pk}/"'
    listed = (f"/w/payments/{workspace.key}/conversations/", "/conversations/", f"/conversations/?agent={agent.pk}")
    for address in listed:
        assert link in text_of(client, address)
    assert client.get("/conversations/?agent=nobody").status_code == 404


def test_prompts_and_answers_are_on_the_timeline_of_the_workspace(spoken, browser_of, bob, workspace):
    page = text_of(browser_of(bob), f"/w/payments/{workspace.key}/")
    for seq in (1, 4):
        assert f'href="/conversations/{spoken.pk}/?upto={seq}#message-{seq}"' in page
    assert "upto=2#" not in page
    assert "Prompt of a session" in page
    assert "Asked by a person" not in page


def test_another_team_finds_nothing(spoken, browser_of, mallory):
    client = browser_of(mallory)
    for rest in ("", "3/", "export.md", "export.jsonl"):
        assert client.get(f"/conversations/{spoken.pk}/{rest}").status_code == 404
    assert str(spoken.pk) not in text_of(client, "/conversations/")


def test_messages_are_read_on_from_a_number(spoken, api, agent_token):
    client, at = api(agent_token), f"/api/v1/sessions/{spoken.pk}"
    first = client.get(f"{at}/messages?limit=3").json()
    assert ([m["seq"] for m in first["messages"]], first["after"]) == ([1, 2, 3], 3)
    rest = client.get(f"{at}/messages?after=3").json()
    assert [(m["kind"], m["text"]) for m in rest["messages"]] == [("text", "There are ```three```.")]
    assert client.get(f"{at}/messages?after=4").json() == {"messages": [], "after": 4}
    call, result = first["messages"][1:]
    action = Action.objects.get()
    assert (call["action"], call["action_number"], call["is_whole"]) == (str(action.pk), action.number, True)
    assert (result["bytes"], result["is_whole"], len(result["text"])) == (INLINE + 1, False, INLINE)


def test_a_long_text_is_read_by_range(spoken, api, agent_token):
    client, at = api(agent_token), f"/api/v1/sessions/{spoken.pk}/messages"
    found = client.get(f"{at}/3/text?offset={INLINE - 1}&length=10")
    assert (found.content, found.headers["Handrail-Size"]) == (b"xx", str(INLINE + 1))
    assert client.get(f"{at}/99/text").status_code == 404
    assert client.get(f"{at}/3/text?offset=-1").status_code == 422


def test_sessions_over_the_api_are_those_of_the_caller(
    spoken, api, agent, agent_token, other_agent_token, team, workspace
):
    assert [s["id"] for s in api(agent_token).get("/api/v1/sessions").json()["sessions"]] == [str(spoken.pk)]
    found = api(agent_token).get(f"/api/v1/sessions?workspace={workspace.key}&session=s1").json()["sessions"]
    assert [(s["title"], s["workspace"], s["seq"]) for s in found] == [(spoken.title, workspace.key, 4)]
    assert api(other_agent_token).get("/api/v1/sessions").json()["sessions"] == []
    assert api(other_agent_token).get(f"/api/v1/sessions/{spoken.pk}").status_code == 404
    other = type(workspace).objects.create(
        team=team, key="repo-2", environment=workspace.environment, state="ready", created_by_agent=agent
    )
    bound = make_token(team, agent=agent, workspace=other, for_run=True)
    assert Token.objects.filter(workspace=other).count() == 1
    assert api(bound).get("/api/v1/sessions").json()["sessions"] == []


def test_exports_have_every_message_in_full(spoken, api, agent_token, browser_of, bob):
    lines = [
        json.loads(line) for line in text_of(browser_of(bob), f"/conversations/{spoken.pk}/export.jsonl").splitlines()
    ]
    assert [line["type"] for line in lines] == ["session", *["message"] * 4]
    assert (lines[0]["native_id"], lines[3]["text"]) == ("s1", "x" * (INLINE + 1))
    document = text_of(browser_of(bob), f"/conversations/{spoken.pk}/export.md")
    assert document.count("\n## ") == 4
    assert "````\nThere are ```three```.\n````" in document
    found = api(agent_token).get(f"/api/v1/sessions/{spoken.pk}/export?form=md")
    assert b"".join(found).decode() == document


def test_thirty_messages_cost_what_one_costs(spoken, browser_of, bob):
    client, address = browser_of(bob), f"/conversations/{spoken.pk}/"

    def cost() -> int:
        text_of(client, address)  # once a minute a visit is noted, which costs queries of its own; not again at once
        with CaptureQueriesContext(connection) as found:
            text_of(client, address)
        return len(found)

    few = cost()
    rows.add(spoken, [Line("user", "text", f"{n}", native_id=f"n{n}") for n in range(30)], "transcript")
    Message.objects.update(action=Action.objects.get())
    assert Message.objects.count() == 34
    assert cost() == few


def test_a_search_links_to_the_message_with_its_terms(spoken, browser_of, bob, mallory):
    page = text_of(browser_of(bob), "/search/?q=three&kind=conversations")
    assert f"/conversations/{spoken.pk}/?upto=4#message-4" in page
    assert f"/conversations/{spoken.pk}/" not in text_of(browser_of(mallory), "/search/?q=three&kind=conversations")


def test_a_call_without_a_conversation_leads_back_to_its_card(ask, browser_of, bob):
    action = ask(session="over the API")
    assert browser_of(bob).get(f"/actions/{action.pk}/conversation/").headers["Location"] == f"/actions/{action.pk}/"
    assert not Message.objects.exists()

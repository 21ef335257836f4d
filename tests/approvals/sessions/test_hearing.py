"""What hooks tell of a session is kept at once: prompts, calls with their actions, results, and the last answer."""

import asyncio

import pytest
from asgiref.sync import sync_to_async

from approvals.models import Action, AgentSession, Message, MessageBody
from approvals.sessions.rows import INLINE
from dashboard import json_text
from workspaces import secrets
from workspaces.models import HandedSecret
from workspaces.secrets.masking import Masker

from ..conftest import send_hook
from .conftest import CALL, LIST, before, said, told

pytestmark = pytest.mark.django_db(transaction=True)
GO_ON = {"continue": True}


@pytest.fixture(autouse=True)
def short_hold(settings):
    settings.HANDRAIL_HOLD_SECONDS = 0.2


def after(arguments=CALL, name="PostToolUse", **more):
    return before(arguments) | {"hook_event_name": name} | more


def test_a_turn_is_kept_in_its_order_and_its_call_leads_to_its_action(hook, agent, agent_token):
    hook(agent_token, told("SessionStart", model="claude-x", source="startup"))
    assert hook(agent_token, told("UserPromptSubmit", prompt="Where are we?")).json == GO_ON
    hook(agent_token, before(CALL))
    hook(agent_token, after(tool_response={"stdout": "/home/mia\n", "stderr": "", "interrupted": False}))
    hook(agent_token, told("Stop", last_assistant_message="In your home."))
    hook(agent_token, told("SessionEnd", reason="logout"))
    session, action = AgentSession.objects.get(), Action.objects.get()
    assert [(m.seq, m.role, m.kind, m.text, m.action) for m in Message.objects.order_by("seq")] == [
        (1, "user", "text", "Where are we?", None),
        (2, "assistant", "call", '{\n "command": "pwd"\n}', action),
        (3, "tool", "result", "/home/mia", action),
        (4, "assistant", "text", "In your home.", None),
    ]
    assert Message.objects.get(kind="result").ok is True
    shown = (session.agent, session.native_id, session.title, session.model, session.end_reason, session.seq)
    assert shown == (agent, "s1", "Where are we?", "claude-x", "logout", 4)
    assert session.ended_at is not None
    hook(agent_token, told("SessionStart", source="resume"))
    session.refresh_from_db()
    assert (session.ended_at, session.end_reason) == (None, "")


@pytest.mark.parametrize(
    ("arguments", "recorded"),
    [pytest.param(LIST, 0, id="allowed"), pytest.param({"command": "rm -rf /"}, 1, id="denied")],
)
def test_only_a_call_that_runs_is_recorded_after_its_answer_was_sent(agent_token, arguments, recorded):
    """The event after the call repeats a call that runs, should web die before the record."""
    at_answer = []

    async def send(message):
        if message["type"] == "http.response.body":
            at_answer.append(await sync_to_async(Message.objects.count)())

    asyncio.run(send_hook(agent_token, before(arguments), send=send))
    assert (at_answer, Message.objects.count()) == ([recorded], 1)


def test_a_call_that_was_not_allowed_is_kept_too(hook, agent_token):
    assert hook(agent_token, before({"command": "rm -rf /"})).decision[0] == "deny"
    assert [(m.kind, m.action) for m in Message.objects.all()] == [("call", Action.objects.get())]


def test_a_failed_call_and_an_answer_reported_twice(hook, agent_token):
    hook(agent_token, before(CALL))
    hook(agent_token, after(name="PostToolUseFailure", error="Exit code 2\nno such file"))
    for active in (False, True):
        hook(agent_token, told("Stop", last_assistant_message="It failed.", stop_hook_active=active))
    assert [(m.kind, m.text, m.ok) for m in Message.objects.order_by("seq")][1:] == [
        ("result", "Exit code 2\nno such file", False),
        ("text", "It failed.", None),
    ]


def test_the_same_prompt_in_two_turns_is_two_messages(hook, agent_token):
    for number in range(2):
        hook(agent_token, told("UserPromptSubmit", prompt="yes"))
        hook(agent_token, told("Stop", last_assistant_message=f"Step {number}."))
    assert [text for _, _, text in said()] == ["yes", "Step 0.", "yes", "Step 1."]


def test_a_sub_agent_has_a_session_below_its_parent(hook, agent_token):
    hook(agent_token, told("UserPromptSubmit", prompt="Look into it"))
    hook(agent_token, before(CALL) | {"agent_id": "a7", "agent_type": "Explore"})
    hook(agent_token, told("SubagentStop", agent_id="a7", last_assistant_message="Found it."))
    child = AgentSession.objects.get(native_id="a7")
    assert child.parent == AgentSession.objects.get(native_id="s1")
    assert [m.text for m in child.messages.filter(kind="text")] == ["Found it."]
    assert child.messages.get(kind="call").action == Action.objects.get(session="s1")


def test_what_looks_like_a_secret_and_what_the_workspace_was_given_is_not_kept(hook, agent_token, workspace):
    value = 'pass"word\nof two lines'
    secrets.search_for(workspace, "DB", "agent", value)
    assert HandedSecret.objects.get().name == "DB"
    event = told("UserPromptSubmit", prompt=f"Use {value} and ghp_{'a1B2' * 9}\0")
    hook(agent_token, event, headers=[("X-Handrail-Workspace", workspace.key)])
    call = before({"command": f"echo '{value}'"}, call_id="toolu_9")
    hook(agent_token, call, headers=[("X-Handrail-Workspace", workspace.key)])
    assert [m.text for m in Message.objects.order_by("seq")] == [
        "Use [secret DB] and [secret]␀",
        '{\n "command": "echo \'[secret DB]\'"\n}',
    ]
    assert AgentSession.objects.get().workspace == workspace


def test_a_long_result_is_kept_as_a_whole_beside_its_beginning(hook, agent_token):
    long = "é" * INLINE
    hook(agent_token, before(CALL))
    hook(agent_token, after(tool_response={"stdout": long, "stderr": ""}))
    found = Message.objects.get(kind="result")
    assert (found.bytes, found.is_long, found.text, found.whole) == (2 * INLINE, True, "é" * (INLINE // 2), long)
    assert MessageBody.objects.count() == 1


@pytest.mark.parametrize(
    "event",
    [
        told("UserPromptSubmit", prompt=7),
        told("UserPromptSubmit", session="", prompt="x"),
        told("Stop", last_assistant_message=["x"]),
        told("SomethingNew", prompt="x"),
        told("PostToolUse", tool_name="Read", tool_response={}),
    ],
)
def test_a_strange_event_keeps_nothing_and_is_let_on(hook, agent_token, event):
    assert hook(agent_token, event).status == 200
    assert not Message.objects.exists()


def test_half_a_surrogate_pair_is_stored_as_its_escape():
    assert Masker(None).stored("a\ud800b\0") == "a\\ud800b␀"


def test_a_number_of_a_call_is_stored_with_its_digits():
    called = json_text.loads('{"price": 1.10, "exact": [1.000000000000000001]}')
    assert '"price": 1.10' in Masker(None).stored(called)
    assert "1.000000000000000001" in Masker(None).stored(called)


def test_another_agent_with_the_same_id_has_its_own_session(hook, agent_token, other_agent_token):
    for token, text in ((agent_token, "mine"), (other_agent_token, "theirs")):
        hook(token, told("UserPromptSubmit", prompt=text))
    assert sorted(AgentSession.objects.values_list("title", flat=True)) == ["mine", "theirs"]

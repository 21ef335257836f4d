"""Transcripts that Claude Code 2.1.329 and Codex 0.169.0 wrote for a scripted model, shortened: each row is understood.

In each the agent looks, fails, edits and starts a sub-agent; then the session is resumed in another process.
"""

import shutil
from decimal import Decimal
from pathlib import Path

import pytest

from approvals.models import AgentSession, Follow, Message
from approvals.sessions import following

from .conftest import said, told

pytestmark = pytest.mark.django_db(transaction=True)
RECORDED = Path(__file__).with_name("recorded")
CHILD = "a78bbe18d60b109d6"
CODEX_CHILD = "01a20e9b-2a67-7673-a551-b89fb56e47bf"


def put(name: str, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(RECORDED / name, path))


@pytest.fixture
def claude(home, followed):
    """Import the recorded session of Claude Code; returns its main session."""
    path = put("claude-code-2.1.329.jsonl", home / ".claude/projects/-home-mia-repo/s1.jsonl")
    put("claude-code-2.1.329-sub-agent.jsonl", path.with_suffix("") / f"subagents/agent-{CHILD}.jsonl")
    followed(path)()
    return AgentSession.objects.get(native_id="s1")


def test_claude_code(claude):
    shown = [(role, kind) for role, kind, _ in said("s1")]
    assert [shown.count(each) for each in (("user", "text"), ("assistant", "call"), ("tool", "result"))] == [2, 9, 9]
    assert [text for role, kind, text in said("s1") if (role, kind) == ("user", "text")] == [
        "ALPHA please work",
        "and go on",
    ]
    assert (claude.unknown, claude.model, claude.cost) == (0, "claude-opus-5-5", Decimal("0.002240"))
    assert (claude.tokens_in, claude.tokens_out, claude.tokens_cached) == (100, 50, 0)
    failed = Message.objects.filter(session=claude, ok=False).order_by("seq")
    assert [message.call_id for message in failed] == ["toolu_test000003", "toolu_test000005"]


def test_what_ran_in_the_background_reports_as_a_note_not_as_a_person(claude):
    reports = [role for role, _, text in said("s1") if text.startswith("<task-notification>")]
    assert reports == ["system"] * 3


def test_sub_agents_of_a_transcript_are_followed_below_the_call_that_started_them(claude):
    children = AgentSession.objects.filter(parent=claude).order_by("call_id")
    assert [(child.native_id, child.call_id) for child in children] == [
        (CHILD, "toolu_test000006"),
        ("aa1e7bde5afb0c097", "toolu_test000008"),
    ]
    following.read_on(Follow.objects.get(session=children[0]))
    assert said(CHILD)[0] == ("user", "text", "BRAVO count the files")
    children[0].refresh_from_db()
    assert (children[0].title, children[0].unknown) == ("BRAVO count the files", 0)
    assert [message.who for message in children[0].messages.filter(role="user")] == [str(claude.agent)]


def test_codex(home, followed):
    path = put("codex-0.169.0.jsonl", home / ".codex/sessions/2026/11/24/rollout-2026-11-24T17-29-31-s1.jsonl")
    followed(path, dialect="codex")()
    session = AgentSession.objects.get(native_id="s1")
    shown = [(role, kind) for role, kind, _ in said("s1")]
    assert [shown.count(each) for each in (("user", "text"), ("assistant", "call"), ("tool", "result"))] == [2, 10, 10]
    assert (session.unknown, session.model) == (0, "gpt-5.6-sol")
    assert (session.tokens_in, session.tokens_out, session.tokens_cached) == (660, 77, 440)
    results = {row.call_id: row.ok for row in Message.objects.filter(kind="result")}
    assert [results[f"call_{number}"] for number in (6, 10, 14, 16)] == [False, True, True, None]


def test_a_sub_agent_of_codex_has_what_it_said_itself_not_its_parent_s(home, followed):
    folder = home / ".codex/sessions/2026/11/24"
    path = put("codex-0.169.0-sub-agent.jsonl", folder / f"rollout-2026-11-24T17-29-39-{CODEX_CHILD}.jsonl")
    followed(path, session=CODEX_CHILD, dialect="codex")()
    session = AgentSession.objects.get(native_id=CODEX_CHILD)
    assert [(role, kind) for role, kind, _ in said()] == [("system", "note"), ("system", "note"), ("assistant", "text")]
    assert (session.title, session.unknown, session.tokens_in) == ("/root/count", 0, 60)


def test_hooks_of_the_same_session_tell_of_the_sub_agent_too(hook, agent_token, claude_file):
    path = str(claude_file.path)
    hook(agent_token, told("SessionStart", transcript_path=path))
    launched = told("PostToolUse", tool_name="Agent", tool_use_id="toolu_6", tool_input={"prompt": "count"})
    hook(agent_token, launched | {"tool_response": {"status": "async_launched", "agentId": CHILD}})
    hook(agent_token, told("SubagentStart", agent_id=CHILD, agent_type="Explore", transcript_path=path))
    child = AgentSession.objects.get(native_id=CHILD)
    assert (child.parent.native_id, child.call_id, child.ended_at) == ("s1", "toolu_6", None)
    assert child.follows.get().path == path.replace("s1.jsonl", f"s1/subagents/agent-{CHILD}.jsonl")
    hook(agent_token, told("SubagentStop", agent_id=CHILD, agent_type="Explore", last_assistant_message="One."))
    child.refresh_from_db()
    assert child.ended_at is not None


def test_the_program_s_own_work_begins_no_session(hook, agent_token):
    hook(agent_token, told("SubagentStop", agent_id="a5", agent_type="", last_assistant_message="A summary."))
    hook(agent_token, told("UserPromptSubmit", prompt="<task-notification>\nmerge it\n</task-notification>"))
    assert [session.native_id for session in AgentSession.objects.all()] == ["s1"]
    assert [(role, kind) for role, kind, _ in said()] == [("system", "note")]

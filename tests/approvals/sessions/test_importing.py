"""Transcripts of Claude Code and Codex: imported as they grow, once, joined to actions, and without secrets."""

import hashlib
import json
import os

import pytest

from approvals.models import Action, AgentSession, Follow, Message
from approvals.sessions import following
from dashboard.models import Event

from .conftest import CALL, ClaudeFile, before, said, told

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def short_hold(settings):
    settings.HANDRAIL_HOLD_SECONDS = 0.2


def use(call_id="toolu_1", tool="Bash", arguments=CALL):
    return {"type": "tool_use", "id": call_id, "name": tool, "input": arguments}


def result(text, call_id="toolu_1", **more):
    return {"type": "tool_result", "tool_use_id": call_id, "content": text, **more}


def answer(file, *blocks, **used):
    usage = {"input_tokens": 3, "output_tokens": 5, "cache_read_input_tokens": 7} | used
    return [
        file.row("assistant", [block], message={"id": "m1", "model": "claude-x", "usage": usage}) for block in blocks
    ]


def test_hooks_and_transcript_give_the_same_rows(hook, agent_token, claude_file, followed):
    read = followed(claude_file.path)
    hook(agent_token, told("UserPromptSubmit", prompt="Where are we?"))
    hook(agent_token, before(CALL))
    claude_file.write(claude_file.row("user", "Where are we?"))
    thinking, call = {"type": "thinking", "thinking": "Hm."}, use()
    claude_file.write(*answer(claude_file, thinking, call), claude_file.row("user", [result("/home/mia")]))
    claude_file.write(claude_file.row("assistant", [{"type": "text", "text": "At home."}]))
    assert read() == 3
    hook(agent_token, told("Stop", last_assistant_message="At home."))
    assert said() == [
        ("user", "text", "Where are we?"),
        ("assistant", "thinking", "Hm."),
        ("assistant", "call", '{\n "command": "pwd"\n}'),
        ("tool", "result", "/home/mia"),
        ("assistant", "text", "At home."),
    ]
    joined = Message.objects.filter(action=Action.objects.get()).order_by("seq")
    assert [(m.kind, m.source) for m in joined] == [("call", "both"), ("result", "transcript")]
    session = AgentSession.objects.get()
    assert (session.model, session.tokens_in, session.tokens_out, session.tokens_cached) == ("claude-x", 3, 5, 7)
    assert (session.seq, sorted(Message.objects.values_list("seq", flat=True))) == (5, [1, 2, 3, 4, 5])
    assert read() == 0


def test_only_whole_lines_are_read(claude_file, followed):
    whole, cut = (json.dumps(claude_file.row("user", text)) for text in ("one", "two"))
    claude_file.write(whole)
    claude_file.write(cut[:40], end="")
    read = followed(claude_file.path)
    assert (read(), said()) == (1, [("user", "text", "one")])
    assert read() == 0
    claude_file.write(cut[40:])
    assert (read(), [text for _, _, text in said()]) == (1, ["one", "two"])
    assert Follow.objects.get().offset == claude_file.path.stat().st_size


def test_unknown_rows_and_broken_lines_are_counted_and_known_state_is_passed_over(claude_file, followed):
    claude_file.write('{"type": "tomorrow"}', "no json", "[]", "", '{"type": "api-request-blob", "data": "x"}')
    claude_file.write(claude_file.row("user", "<command-name>/clear</command-name>"), claude_file.row("user", "go"))
    assert followed(claude_file.path)() == 2
    assert [(role, kind) for role, kind, _ in said()] == [("system", "note"), ("user", "text")]
    assert AgentSession.objects.get().unknown == 3


def test_a_file_written_anew_is_a_new_branch_and_nothing_is_deleted(claude_file, followed):
    first, second = claude_file.row("user", "first"), claude_file.row("user", "second")
    claude_file.write(first, second)
    read = followed(claude_file.path)
    assert read() == 2
    claude_file.path.unlink()
    claude_file.write(first, claude_file.row("user", "instead"))
    assert read() == 1
    assert [(m.text, m.branch) for m in Message.objects.order_by("seq")] == [
        ("first", 0),
        ("second", 0),
        ("instead", 1),
    ]
    assert AgentSession.objects.get().branch == 1


def test_the_log_has_the_digest_of_what_was_imported(claude_file, followed):
    claude_file.write(claude_file.row("user", "go"))
    followed(claude_file.path)()
    data = claude_file.path.read_bytes()
    assert Event.objects.get(verb="session.transcript_read").data == {
        "session": "s1",
        "from": 0,
        "to": len(data),
        "messages": 1,
        "sha256": hashlib.sha256(data).hexdigest(),
    }


def test_secrets_are_not_imported(claude_file, followed):
    key = "ghp_" + "a1B2" * 9
    claude_file.write(claude_file.row("user", [result(f"token: {key}\nhttps://mia:hunter2@git.example.org")]))
    followed(claude_file.path)()
    assert said() == [("tool", "result", "token: [secret]\nhttps://…@git.example.org")]


def test_a_line_that_is_too_long_is_passed_over(claude_file, followed, monkeypatch):
    monkeypatch.setattr(following, "MAX_READ", 512)
    monkeypatch.setattr(following, "MAX_LINE", 1024)
    claude_file.write(claude_file.row("user", "x" * 3000), claude_file.row("user", "y" * 600))
    claude_file.write(claude_file.row("user", "end"))
    assert followed(claude_file.path)() == 2
    assert ([text[:3] for _, _, text in said()], AgentSession.objects.get().unknown) == (["yyy", "end"], 1)


def test_only_a_file_that_can_be_the_session_s_is_read(home, followed, hook, agent_token):
    secret = home / ".ssh/s1.jsonl"
    for path in (secret, home / ".claude/projects/x/other.jsonl", home / ".claude/projects/x/../../../.ssh/s1.jsonl"):
        file = ClaudeFile(path)
        file.write(file.row("user", "private"))
        hook(agent_token, told("SessionStart", transcript_path=str(path)))
    assert not Follow.objects.exists()
    link = home / ".claude/projects/x/s1.jsonl"
    link.symlink_to(secret)
    assert followed(link)() == 0
    assert (said(), Follow.objects.get().problem) == ([], "it is reached through a symlink")


def test_a_pipe_in_the_place_of_a_transcript_does_not_stop_the_sweep(home, followed):
    path = home / ".claude/projects/x/s1.jsonl"
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    assert followed(path)() == 0
    assert Follow.objects.get().problem == "it is no regular file"


def test_a_missing_file_is_reported_and_read_once_it_is_there(claude_file, followed):
    read = followed(claude_file.path)
    assert (read(), Follow.objects.get().problem) == (0, "No such file or directory")
    claude_file.write(claude_file.row("user", "go"))
    assert (read(), Follow.objects.get().problem) == (1, "")


def item(role, kind, text):
    return ("response_item", {"type": "message", "role": role, "content": [{"type": kind, "text": text}]})


def codex_rows():
    used = {"input_tokens": 9, "cached_input_tokens": 4, "output_tokens": 2}
    count = {"type": "token_count", "info": {"last_token_usage": used, "total_token_usage": used}}
    call = {"type": "function_call", "name": "exec_command", "arguments": '{"cmd": "pwd"}', "call_id": "c1"}
    items = [
        ("session_meta", {"id": "s1", "cwd": "/work"}),
        ("turn_context", {"model": "gpt-x"}),
        item("user", "input_text", "<environment_context>x</environment_context>"),
        item("user", "input_text", "Where are we?"),
        ("response_item", {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}),
        ("response_item", call),
        ("event_msg", count),
        ("response_item", {"type": "function_call_output", "call_id": "c1", "output": "/work"}),
        ("event_msg", {"type": "agent_message", "message": "At work."}),
        item("assistant", "output_text", "At work."),
        ("response_item", {"type": "tomorrow"}),
    ]
    at = "2026-11-20T10:00:{:02}.000Z"
    return [{"timestamp": at.format(n), "type": kind, "payload": payload} for n, (kind, payload) in enumerate(items)]


def test_a_transcript_of_codex(home, followed):
    path = home / ".codex/sessions/2026/11/20/rollout-2026-11-20T10-00-00-s1.jsonl"
    file = ClaudeFile(path)
    rows = codex_rows()
    file.write(*rows[:6])
    read = followed(path, dialect="codex")
    assert read() == 4
    file.write(*rows[6:])
    assert read() == 2
    assert said() == [
        ("system", "note", "<environment_context>x</environment_context>"),
        ("user", "text", "Where are we?"),
        ("assistant", "thinking", "Hm."),
        ("assistant", "call", '{\n "cmd": "pwd"\n}'),
        ("tool", "result", "/work"),
        ("assistant", "text", "At work."),
    ]
    session = AgentSession.objects.get()
    assert (session.model, session.unknown) == ("gpt-x", 1)
    assert (session.tokens_in, session.tokens_out, session.tokens_cached) == (5, 2, 4)

"""What agents left behind is read as they wrote it, and whatever else stands there does no harm."""

import json
import os

import pytest

from approvals.past import transcripts
from approvals.past.transcripts import Reader

from .conftest import age


def read(home, **more):
    return Reader(home.path, **more).read()


def told(past) -> list:
    return sorted((call.agent, call.tool, call.text, call.cwd) for call in past.calls.values())


def test_claude_codes_calls_are_read_with_their_folder(home):
    home.claude({"type": "summary"}, home.claude_row("make", cwd="/srv/calc/src"))
    assert told(read(home)) == [("claude-code", "Bash", "make", "/srv/calc/src")]


def test_a_sub_agents_transcript_counts_as_well(home):
    home.claude(home.claude_row("make"), name="-work-calc/one/subagents/agent-1.jsonl")
    assert read(home).total == 1


def test_codexs_commands_and_patches_are_read_and_its_plans_are_not(home):
    patch = "*** Begin Patch\n*** Delete File: a\n*** End Patch"
    home.codex(
        {
            "type": "function_call",
            "name": "shell",
            "call_id": "1",
            "arguments": '{"command": ["bash", "-lc", "make a"]}',
        },
        {"type": "function_call", "name": "shell", "call_id": "2", "arguments": '{"command": ["ls", "a b"]}'},
        {
            "type": "function_call",
            "name": "exec_command",
            "call_id": "3",
            "arguments": '{"cmd": "id", "workdir": "/x"}',
        },
        {"type": "local_shell_call", "call_id": "4", "action": {"type": "exec", "command": ["sh", "-c", "pwd"]}},
        {"type": "custom_tool_call", "name": "apply_patch", "call_id": "5", "input": patch},
        {"type": "function_call", "name": "update_plan", "call_id": "6", "arguments": "{}"},
        {"type": "function_call", "name": "shell", "call_id": "7", "arguments": "not json"},
    )
    assert told(read(home)) == [
        ("codex", "Bash", "id", "/x"),
        ("codex", "Bash", "ls 'a b'", "/srv/calc"),
        ("codex", "Bash", "make a", "/srv/calc"),
        ("codex", "Bash", "pwd", "/srv/calc"),
        ("codex", "apply_patch", patch, "/srv/calc"),
    ]


def test_copilots_calls_have_the_names_that_the_policy_knows(home):
    home.copilot(
        {"toolCallId": "1", "toolName": "bash", "arguments": {"command": "make"}},
        {"toolCallId": "2", "toolName": "view", "arguments": {"path": "/srv/calc/a.py"}},
    )
    assert told(read(home)) == [
        ("copilot", "Bash", "make", "/srv/calc"),
        ("copilot", "Read", "/srv/calc/a.py", "/srv/calc"),
    ]


def test_opencodes_database_is_read_and_stays_as_it_was(home):
    tool = {"type": "tool", "tool": "bash", "callID": "c", "state": {"input": {"command": "make"}}}
    path = home.opencode(tool, {"type": "text"}, "no json", "[1]")
    before = (path.read_bytes(), sorted(path.parent.iterdir()))
    past = read(home)
    assert told(past) == [("opencode", "Bash", "make", "/srv/calc")]
    assert past.broken == 2
    assert (path.read_bytes(), sorted(path.parent.iterdir())) == before


def test_equal_calls_are_counted_and_those_of_a_resumed_session_are_not_counted_again(home):
    first = home.claude_row("make", call_id="toolu_a")
    home.claude(first, home.claude_row("make"))
    home.claude(first, home.claude_row("make"), name="-work-calc/two.jsonl")
    past = read(home)
    assert (past.total, len(past.calls)) == (3, 1)


def test_only_the_days_asked_for_count(home):
    home.claude(home.claude_row("old", days_ago=40), home.claude_row("new", days_ago=2))
    age(home.claude(home.claude_row("lie", days_ago=1), name="-work-calc/old.jsonl"), 40)
    assert [call.text for call in read(home).calls.values()] == ["new"]
    assert {call.text for call in read(home, days=45).calls.values()} == {"old", "new", "lie"}


def test_only_sessions_of_the_folder_count(home):
    rows = [home.claude_row("in", cwd="/srv/calc/src"), home.claude_row("beside", cwd="/srv/calculator")]
    for number, row in enumerate(rows):
        home.claude(row, name=f"-work/{number}.jsonl")
    assert [call.text for call in read(home, folders=["/srv/calc"]).calls.values()] == ["in"]


NONSENSE = [
    b"\x00\xff\xfe" * 1000 + b"\n",
    b'{"type": "assistant"\n',
    b"[" * 100_000 + b"\n",
    b"3\n",
    b'"text"\n',
]


def test_lines_that_make_no_sense_are_counted_and_the_others_read(home):
    home.claude(*NONSENSE, home.claude_row("make"))
    past = read(home)
    assert (past.broken, past.total) == (len(NONSENSE), 1)


@pytest.mark.parametrize(
    "row",
    [
        {"type": "assistant", "message": 3},
        {"type": "assistant", "message": {"content": "text"}},
        {"type": "assistant", "message": {"content": [3, {"type": "tool_use", "name": 3, "input": []}]}},
        {"type": ["assistant"], "cwd": {"a": 1}, "message": None},
        {"type": "assistant", "timestamp": 10**400},
        {"type": "assistant", "timestamp": "9999-12-31T23:59:59+14:00"},
    ],
)
def test_rows_of_another_shape_are_no_calls(home, row):
    home.claude(row, home.claude_row("make"))
    assert told(read(home)) == [("claude-code", "Bash", "make", "/srv/calc")]


def test_a_line_without_end_is_skipped_in_bounded_memory(home, monkeypatch):
    monkeypatch.setattr(transcripts, "MAX_LINE", 1000)
    home.claude(b'{"a": "' + b"x" * 10_000 + b'"}\n', home.claude_row("make"))
    past = read(home)
    assert (past.broken, past.total) == (1, 1)


def test_reading_ends_at_its_limits_and_says_so(home, monkeypatch):
    monkeypatch.setattr(transcripts, "MAX_CALLS", 5)
    home.claude(*(home.claude_row(f"echo {n}") for n in range(50)))
    past = read(home)
    assert (past.cut, len(past.calls) <= 6) == (True, True)


def test_symlinks_and_pipes_are_not_opened(home, tmp_path):
    outside = home.claude(home.claude_row("outside")).rename(tmp_path / "outside.jsonl")
    folder = home.path / ".claude/projects"
    (folder / "-work-calc/link.jsonl").symlink_to(outside)
    other = tmp_path / "other"
    other.mkdir()
    (other / "far.jsonl").write_text(json.dumps(home.claude_row("far")) + "\n")
    (folder / "away").symlink_to(other)
    os.mkfifo(folder / "-work-calc/pipe.jsonl")
    past = read(home)
    assert (past.total, past.skipped) == (0, 2)


def test_a_folder_of_transcripts_that_leads_out_of_the_home_is_not_followed(home, tmp_path):
    away = tmp_path / "away"
    away.mkdir()
    (away / "far.jsonl").write_text(json.dumps(home.claude_row("far")) + "\n")
    (home.path / ".claude").mkdir()
    (home.path / ".claude/projects").symlink_to(away)
    past = read(home)
    assert (past.total, past.skipped) == (0, 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_of_another_user_are_left_out(home):
    os.chown(home.claude(home.claude_row("make")), 12345, 12345)
    past = read(home)
    assert (past.total, past.skipped) == (0, 1)


def test_a_file_that_is_no_database_is_left_out(home):
    path = home.opencode()
    path.write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    assert (read(home).total, read(home).skipped) == (0, 1)

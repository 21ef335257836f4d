"""The hook's own program: against a Handrail that is away, breaks, restarts or answers nonsense, it never opens."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from approvals.agents.claude_code.settings import PROGRAM

EVENT = {
    "session_id": "s1",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "ls"},
    "tool_use_id": "t1",
}
PATIENCE = 8


def decision(word: str, event: str = "PreToolUse") -> bytes:
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, "permissionDecision": word}}).encode()


def http(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (status.encode(), len(body), body)


class ScriptedServer:
    """Takes one connection after the other, reads the request, and does what the next step says.

    A step is what it sends; None closes without a word; a number waits so many seconds first.
    """

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.asked: list[dict] = []
        self.heads: list[str] = []
        self.closed = threading.Event()  # the client has ended a connection that was held

    def play(self, *steps):
        threading.Thread(target=self._play, args=(steps,), daemon=True).start()

    def _play(self, steps):
        for step in steps:
            try:
                client, _ = self.listener.accept()
            except OSError:  # closed by the test
                return
            with client:
                head, body = _read(client)
                self.heads.append(head)
                self.asked.append(body)
                for part in step if isinstance(step, tuple) else (step,):
                    if part == "hold":
                        self.closed.set() if client.recv(1) == b"" else None
                    elif isinstance(part, int | float):
                        time.sleep(part)
                    elif part:
                        client.sendall(part)

    def close(self):
        self.listener.close()


def _read(client) -> tuple[str, dict]:
    data = b""
    while b"\r\n\r\n" not in data:
        data += client.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    while len(body) < length:
        body += client.recv(65536)
    return head.decode(), json.loads(body)


@pytest.fixture
def desk():
    running = ScriptedServer()
    yield running
    running.close()


@pytest.fixture
def run(desk, tmp_path):
    """`run("gate")`: the hook with this desk's address; the process that has ended."""

    def one(role: str, *more: str, event=EVENT, patience=PATIENCE):
        line = [*_line(desk, tmp_path, role, patience), *more]
        return subprocess.run(line, input=json.dumps(event).encode(), capture_output=True, timeout=60)

    return one


def _line(desk, folder: Path, role: str, patience: int) -> list[str]:
    connection = folder / "connection.json"
    told = {"address": f"http://127.0.0.1:{desk.port}", "token": "hr_x", "patience_s": patience}
    connection.write_text(json.dumps(told))
    return [sys.executable, "-I", str(PROGRAM), str(connection), role]


@pytest.mark.parametrize("word", ["allow", "deny"])
def test_a_full_decision_is_passed_on_as_it_is(desk, run, word):
    desk.play(http(decision(word)))
    done = run("gate")
    assert (done.returncode, done.stdout, desk.asked) == (0, decision(word), [EVENT])


@pytest.mark.parametrize(
    "answer",
    [
        http(decision("ask")),
        http(decision("defer")),
        http(decision("allow", event="PostToolUse")),
        http(b""),
        http(b"{}"),
        http(b"[]"),
        http(b'"allow"'),
        http(b'{"continue": true}'),
        http(b"<html>"),
        http(decision("allow"), "500 Internal Server Error"),
        http(decision("allow"), "201 Created"),
        http(b"", "404 Not Found"),
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n",
    ],
)
def test_anything_else_is_a_no_at_once(desk, run, answer):
    desk.play(answer)
    done = run("gate", patience=3600)
    assert (done.returncode, done.stdout, len(desk.asked)) == (2, b"", 1)
    assert b"nothing is allowed" in done.stderr


@pytest.mark.parametrize(
    "broken", [None, b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{", http(b"", "502 Bad Gateway")]
)
def test_a_wait_survives_a_restart_the_same_event_is_asked_again(desk, run, broken):
    desk.play((1.2, broken), http(b"", "503 Service Unavailable"), None, http(decision("allow")))
    done = run("gate", patience=60)
    assert (done.returncode, done.stdout) == (0, decision("allow"))
    assert desk.asked == [EVENT] * 4


def test_a_desk_that_is_away_from_the_start_is_a_no(desk, run):
    desk.close()
    done = run("gate", patience=2)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"does not respond" in done.stderr


def test_a_desk_that_takes_no_call_is_not_waited_for_all_day(desk, run):
    """It closes each connection at once: that is nobody who waits for a person."""
    desk.play(*[None] * 500)
    began = time.monotonic()
    done = run("gate", patience=86_280)
    assert (done.returncode, done.stdout) == (2, b"")
    assert time.monotonic() - began < 59  # a bound for people, far above the 30 s that it takes


def test_patience_ends_before_the_hooks_own_time(desk, run):
    desk.play((30, http(decision("allow"))))
    done = run("gate", patience=2)
    assert (done.returncode, done.stdout) == (2, b"")


@pytest.mark.parametrize("event", ["Stop", "PostToolUse", "SessionEnd"])
def test_a_report_that_cannot_be_delivered_does_not_block_the_agent(desk, run, event):
    desk.play(http(b"<html>"))
    done = run("report", event=EVENT | {"hook_event_name": event})
    assert (done.returncode, done.stdout) == (1, b"")


def test_a_prompt_waits_two_seconds_at_most_for_a_desk_that_is_away(desk, run):
    desk.close()
    began = time.monotonic()
    done = run("report", event=EVENT | {"hook_event_name": "UserPromptSubmit", "prompt": "Ship it"})
    assert (done.returncode, done.stdout) == (1, b"")
    assert time.monotonic() - began < 15  # a bound for people, below the 20 s of other reports


def test_a_report_passes_the_answer_on(desk, run):
    body = b'{"decision": "block", "reason": "A-7 was approved meanwhile."}'
    desk.play(http(body))
    assert run("report", event=EVENT | {"hook_event_name": "Stop"}).stdout == body


def test_another_event_in_the_line_of_the_gate_does_not_open(desk, run):
    desk.play(http(b'{"continue": true}'))
    assert run("gate", event=EVENT | {"hook_event_name": "BeforeTool"}).returncode == 2


def envelope(text='{"decision": "allow"}', **more) -> bytes:
    return json.dumps({"handrail": 1, "decides": True, "stdout": text} | more).encode()


def test_for_another_agent_it_prints_what_is_in_the_envelope(desk, run):
    desk.play(http(envelope()))
    done = run("gate", "copilot", "preToolUse", event={"toolName": "bash"})
    assert (done.returncode, done.stdout) == (0, b'{"decision": "allow"}')
    assert desk.asked == [{"toolName": "bash"}]
    first, *lines = desk.heads[0].split("\r\n")
    assert first == "POST /hooks/copilot HTTP/1.0"
    assert {"Prefer: handrail-envelope", "X-Handrail-Event: preToolUse"} <= set(lines)


@pytest.mark.parametrize(
    "answer",
    [
        http(decision("allow")),
        http(b"{}"),
        http(b""),
        http(envelope(handrail=2)),
        http(envelope(decides=False)),
        http(envelope(decides=1)),
        http(envelope("")),
        http(envelope(" \n")),
        http(envelope(text=None)),
        http(envelope(), "500 Internal Server Error"),
    ],
)
def test_for_another_agent_anything_else_is_a_no(desk, run, answer):
    desk.play(answer)
    done = run("gate", "codex", patience=3600)
    assert (done.returncode, done.stdout) == (2, b"")


def test_for_another_agent_a_wait_survives_a_restart_too(desk, run):
    desk.play((1.2, None), http(b"", "503 Service Unavailable"), None, http(envelope()))
    done = run("gate", "codex", patience=60)
    assert (done.returncode, desk.asked) == (0, [EVENT] * 4)


def test_a_report_of_another_agent_needs_no_decision(desk, run):
    desk.play(http(envelope('{"continue": true}', decides=False)))
    done = run("report", "gemini")
    assert (done.returncode, done.stdout) == (0, b'{"continue": true}')


@pytest.mark.parametrize("killed", ["the shell", "the reader"])
def test_the_hook_ends_with_claude_code_so_that_the_card_is_withdrawn(desk, tmp_path, killed):
    desk.play(("hold",))
    line = " ".join(_line(desk, tmp_path, "gate", 3600)) + " || exit 2"
    shell = subprocess.Popen(["/bin/sh", "-c", line], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    shell.stdin.write(json.dumps(EVENT).encode())
    shell.stdin.close()
    deadline = time.monotonic() + 30
    while not desk.asked and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not desk.closed.is_set()
    if killed == "the shell":
        os.kill(shell.pid, signal.SIGKILL)
    else:
        shell.stdout.close()
    assert desk.closed.wait(20)
    if killed == "the shell":
        shell.stdout.close()
    assert shell.wait(20) in (2, -signal.SIGKILL)


# How a shell call ended ----------------------------------------------------------------------------------------------


def _transcript(path: Path, *lines: dict | str) -> str:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return str(path)


def _ended(call: str, status) -> dict:
    item = {"type": "CommandExecution", "id": call, "aggregated_output": '"exit_code":9', "exit_code": status}
    return {"type": "event_msg", "payload": {"type": "item_completed", "item": item}}


@pytest.mark.parametrize(
    ("lines", "sent"),
    [
        ([_ended("t0", 0), _ended("t1", 3), _ended("t2", 0)], 3),
        ([_ended("t1", -9), 'not JSON, with t1 and "exit_code"'], None),
        ([_ended("t0", 0)], None),
        ([_ended("t1", "0")], None),
        ([_ended("t1", True)], None),
        ([], None),
    ],
)
def test_a_report_carries_the_exit_status_that_the_transcript_has(desk, run, tmp_path, lines, sent):
    desk.play(http(b'{"handrail": 1, "stdout": "{}"}'))
    about = {"hook_event_name": "PostToolUse", "transcript_path": _transcript(tmp_path / "t.jsonl", *lines)}
    run("report", "codex", event=EVENT | about)
    assert desk.asked[0].get("handrail_exit_status") == sent
    assert desk.asked[0] | {"handrail_exit_status": None} == EVENT | about | {"handrail_exit_status": None}


def test_a_gate_never_adds_to_the_call(desk, run, tmp_path):
    desk.play(http(decision("allow")))
    about = {"transcript_path": _transcript(tmp_path / "t.jsonl", _ended("t1", 0))}
    run("gate", event=EVENT | about)
    assert desk.asked == [EVENT | about]

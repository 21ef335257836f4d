"""Whatever comes in, the engine answers, and an answer that it is not sure of asks."""

import json
import random
import string
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from approvals.policy import TIERS, Policy, classify, shell

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
KEYS = st.sampled_from(["command", "file_path", "url", "content", "path", "pattern", "server", "tool", "arguments"])
# A busy machine makes examples slowly; that says nothing about the engine.
any_input = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
TOOLS = st.sampled_from(["Bash", "Write", "Read", "Edit", "WebFetch", "mcp", "mcp__a__b", "Grep", "Task"])


@any_input
@given(tool=TOOLS | JSON, arguments=st.dictionaries(KEYS, JSON) | JSON, context=JSON)
def test_no_tool_call_raises(tool, arguments, context):
    verdict = classify(tool, arguments, policy=Policy(), context=context)
    assert verdict.tier in TIERS
    assert verdict.reasons


@any_input
@given(command=st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")))
def test_no_text_raises_as_a_command(command):
    assert classify("Bash", {"command": command}, policy=Policy()).tier in TIERS


def test_shuffled_shell_never_raises_and_is_never_allowed_by_no_rule():
    pieces = ["ls", "git", "-x", "'", '"', "$(", ")", "`", "|", "&&", ";", "<", ">", "${", "}", "{", "#", "\\", "\n"]
    pieces += ["<<E", "E", "$((", "))", "[[", "]]", "for", "do", "done", "if", "then", "fi", "=", "*", "~", "\u202e"]
    chance = random.Random(7)
    for _ in range(150):
        text = "".join(chance.choice(pieces) + chance.choice(["", " "]) for _ in range(chance.randrange(1, 25)))
        verdict = classify("Bash", {"command": text}, policy=Policy.of_rules([]))
        assert verdict.tier != "low" or not any(e["words"] for e in verdict.commands), text


@pytest.mark.parametrize(
    "command",
    [
        "(" * 4000 + "ls" + ")" * 4000,
        "echo " + "$(" * 2000 + "ls" + ")" * 2000,
        "echo " + "{a,b}" * 1500,
        "ls " + "a " * 4000,
        "ls; " * 2000,
        "echo '" + "x" * 9000 + "'",
        "x" * 1_000_000,
        "sed 's/" + "a" * 9000 + "/b/' f",
        "awk '" + "a" * 9000 + "' f",
        "sqlite3 a.db 'select " + "(" * 4000 + "'",
        "echo " + "\\" * 9000,
        "sed '" + "s/a/[/" * 1500 + "' f",
        "cat " + "../" * 3000,
    ],
    ids=range(13),
)
def test_long_and_deep_input_gets_an_answer(command):
    assert classify("Bash", {"command": command}, policy=Policy()).tier in TIERS


def test_an_engine_error_asks(monkeypatch):
    monkeypatch.setattr("approvals.policy.bash.parse", lambda command: {"Stmts": 7})
    verdict = classify("Bash", {"command": "ls"}, policy=Policy())
    assert (verdict.tier, verdict.reasons) == ("high", ["Needs approval: the policy engine failed (TypeError)."])


def test_a_parser_that_does_not_start_asks(monkeypatch, tmp_path):
    monkeypatch.setattr(shell, "_parser", lambda: tmp_path / "none")
    verdict = classify("Bash", {"command": "ls # a command of its own"}, policy=Policy())
    assert (verdict.tier, verdict.reasons) == (
        "high",
        ["Needs approval: the shell parser did not start (No such file or directory)."],
    )


def test_a_parser_that_hangs_asks(monkeypatch, tmp_path):
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec /bin/sleep 30\n")
    slow.chmod(0o755)
    monkeypatch.setattr(shell, "_parser", lambda: slow)
    monkeypatch.setattr(shell, "TIME_LIMIT", 0.2)
    verdict = classify("Bash", {"command": "ls # another command"}, policy=Policy())
    assert verdict.reasons == ["Needs approval: it takes too long to take apart."]


def decide(*lines):
    done = subprocess.run(
        [sys.executable, "-m", "approvals.policy", "decide"],
        input=b"".join(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines),
        capture_output=True,
        timeout=120,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_decide_answers_each_line():
    answers = decide(
        {"tool": "Bash", "input": {"command": "git status"}, "allow_rules": ["Bash(git status)"]},
        {"tool": "Bash", "input": {"command": "git push"}, "allow_rules": ["Bash(git status)"]},
        {"tool": "Bash", "input": {"command": "pytest"}, "policy": 'forbidden = ["Bash(pytest *)"]'},
        {"tool": "Write", "input": {"file_path": "a.py", "content": ""}},
    )
    assert [answer["tier"] for answer in answers] == ["low", "high", "forbidden", "medium"]
    assert answers[0]["rule"] == "Bash(git status)"
    assert answers[2]["reasons"] == ["Forbidden: runs pytest, which runs the project's own code (rule Bash(pytest *))."]


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense\n",
        b"[]\n",
        b'{"tool": 1}\n',
        b'{"tool": "Bash", "input": []}\n',
        b'{"tool": "Bash", "input": {"command": "ls"}, "allow_rules": "Bash(ls)"}\n',
        b'{"tool": "Bash", "input": {"command": "ls"}, "policy": "mode = 3"}\n',
        b'{"tool": "Bash", "input": {"command": "ls"}, "allow_rules": [3, null, "Bash("]}\n',
        b'{"tool": "Bash", "input": {"command": "ls"}, "input": {"command": "rm"}, "allow_rules": ["Bash(ls)"]}\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b'{"tool": "Bash", "input": {"command": "\\ud800"}}\n',
    ],
)
def test_a_bad_line_is_answered_with_asking_and_the_next_one_too(line):
    answers = decide(line, {"tool": "Bash", "input": {"command": "ls"}, "allow_rules": ["Bash(ls)"]})
    assert [answer["tier"] for answer in answers] == ["high", "low"]
    assert answers[0]["reasons"][0].startswith("Needs approval: ")


def test_letters_of_every_kind_are_answered():
    assert classify("Bash", {"command": "echo " + string.printable}, policy=Policy()).tier == "high"

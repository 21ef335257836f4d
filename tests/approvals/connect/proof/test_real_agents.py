"""The four rows of the fail-closed matrix that matter most, on the agents' real programs, as `prove` tries them.

`python -m bench.agents` has the other rows, and the other agents.
"""

import json
import os
from pathlib import Path

import pytest

from approvals.agents import dialects, home_settings
from approvals.agents.claude_code import settings as claude_settings
from approvals.agents.claude_code.settings import LOCAL
from approvals.agents.codex import trust as codex_trust
from approvals.agents.dialect import ALLOW, Reply
from approvals.agents.hook_events import After
from approvals.agents.hook_programs import hook_command
from approvals.connect import versions
from approvals.connect.proof import trial
from approvals.connect.proof.desk import Desk
from approvals.connect.proof.model import DONE, Model, run
from approvals.connect.proof.scratch import Connected, Scratch
from approvals.connect.proof.trial import ALLOWED, CHANGED, DENIED, EDITED, OUT_OF_REACH, REASON
from approvals.hooks.tool_output import result_of

TIMEOUT = 300  # seconds; each needs 5 to 15 on a calm machine


@pytest.fixture(scope="session")
def real_agents(require) -> Path:
    """The folder of the programs."""
    folder = os.environ.get("HANDRAIL_TEST_AGENTS")
    if not folder:
        require("agents", "HANDRAIL_TEST_AGENTS names no folder; `deploy/agents.sh` makes one and prints it")
    return Path(folder)


@pytest.fixture(params=["claude-code", "codex", "gemini", "copilot", "opencode"])
def dialect(request, real_agents, monkeypatch):
    monkeypatch.setenv("PATH", f"{real_agents}:{os.environ['PATH']}")
    return dialects.find(request.param)


@pytest.fixture
def person(dialect, tmp_path) -> Connected:
    """A person's home and folder with the hook that `connect` puts there; its desk is nowhere."""
    home, folder, connection = tmp_path / "home", tmp_path / "folder", tmp_path / "connection.json"
    home.mkdir()
    folder.mkdir()
    connection.write_text(json.dumps({"address": "http://127.0.0.1:9", "token": "none", "patience_s": 1}))
    if dialect.settings_file:
        hooks = dialect.hooks(lambda role, event="": hook_command(connection, role, dialect.name, event))
        home_settings.put_in(dialect, home, hooks, ours=str(connection))
    else:
        text = claude_settings.with_hooks(None, claude_settings.entries(connection), ours=str(connection))
        claude_settings.write(folder / LOCAL, text, folder.stat())
    if dialect.name == "codex":
        codex_trust.make_true(home, folder, ours=str(connection))
    return Connected(home, folder, connection)


def test_no_call_runs_unapproved_and_edit_and_reason_arrive(dialect, person):
    program, _ = versions.installed(dialect)
    tried = trial.run_rows(dialect, program, person, (ALLOWED, EDITED, DENIED, OUT_OF_REACH), TIMEOUT)
    rows = tried.rows
    assert {name: row.ran for name, row in rows.items()} == {
        ALLOWED: (ALLOWED,), EDITED: (CHANGED,), DENIED: (), OUT_OF_REACH: ()}, tried  # fmt: skip
    assert [name for name, row in rows.items() if row.heard] == [ALLOWED, EDITED, DENIED], tried
    assert REASON in rows[DENIED].told, tried
    assert rows[OUT_OF_REACH].told, tried


def test_the_exit_status_of_a_command_arrives(dialect, person, tmp_path):
    program, _ = versions.installed(dialect)
    model, desk = Model(), Desk(lambda heard: Reply(ALLOW, "Approved.", heard.arguments))
    commands = ["echo first; exit 3", "echo second"]
    model.scripts[trial.WORD] = [*([run(command)] for command in commands), DONE]
    root = tmp_path / "scratch"
    root.mkdir()
    scratch = Scratch(root, desk.url, desk.url)
    scratch.fill(dialect, person)
    try:
        printed = trial.run_program(dialect, program, model, scratch, TIMEOUT)
    finally:
        desk.leave()
        model.stop()
    ends = [heard for heard in desk.reported if isinstance(heard, After)]
    results = [result_of(heard, None).get("exit_status") for heard in ends]
    assert [heard.failed or bool(status) for heard, status in zip(ends, results, strict=True)] == [True, False], printed
    assert results == [3, 0]

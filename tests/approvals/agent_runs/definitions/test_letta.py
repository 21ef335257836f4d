"""Agent files with Letta's own schema, from its package."""

import json
import subprocess
from pathlib import Path

import pytest

from approvals.agent_runs import definitions
from approvals.agent_runs.definitions import secret_values
from dashboard.people.access import caller_of
from tests.support import CHECKOUT

from .test_definitions import REVIEWER, take

PROGRAM = Path(__file__).with_name("letta_schema.py")


@pytest.fixture(scope="session")
def schema(require):
    """`schema("check", file)`: run letta_schema.py, which must not fail; what it prints."""
    python = CHECKOUT / ".venv-letta/bin/python"
    if not python.exists():
        require("agents", "there is no .venv-letta; `deploy/letta.sh` makes it")

    def run(*words) -> str:
        done = subprocess.run([python, PROGRAM, *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    return run


def test_a_file_of_lettas_schema_comes_back_the_same_without_secrets(schema, team, lena, tmp_path):
    full = json.loads(schema("full").splitlines()[-1])
    full["agents"][0]["of_tomorrow"] = {"a": [1, None]}
    exported = definitions.export(take(team, lena, full), "letta")
    wanted = secret_values.emptied(full)
    assert wanted["agents"][0]["tool_exec_environment_variables"] == {"MAIL_PASSWORD": ""}
    assert {key for key in full if full[key] != wanted[key]} == {"agents"}
    assert exported == wanted
    file = tmp_path / "support.af"
    file.write_text(json.dumps(exported))
    assert json.loads(schema("check", file).splitlines()[-1]) == [["You help."], ["persona"]]


def test_letta_takes_a_definition_that_was_made_here(schema, team, lena, tmp_path):
    made = definitions.save(team, "Reviewer", REVIEWER, caller=caller_of(lena))
    file = tmp_path / "reviewer.af"
    file.write_text(json.dumps(definitions.export(made, "letta")))
    assert json.loads(schema("check", file).splitlines()[-1]) == [["You review code."], ["persona", "human"]]

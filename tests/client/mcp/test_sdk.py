"""The MCP project's own client and server, with the gate between them."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.frameworks.conftest import frameworks  # noqa: F401 (fixture)

HERE = Path(__file__).parent


@pytest.fixture
def started(frameworks, command, environment, tmp_path):  # noqa: F811
    """`started(…)`: the SDK's client with a gate before the SDK's server."""

    def start(**more) -> subprocess.Popen:
        gate = [sys.executable, *command[1:], "mcp-gate", "--name", "sdk", "--grace", "0.5", "--"]
        words = [frameworks, str(HERE / "sdk_program.py"), *gate, frameworks, str(HERE / "sdk_server.py")]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(words, env=environment | more, cwd=tmp_path, **pipes)

    return start


def test_a_call_is_approved_after_its_progress_was_told(started, person, name, ran):
    client = started()
    asked = person.sees(name)
    assert asked["tool"] == "mcp__sdk__note"
    person.decides(asked, "approve")
    said, told = client.communicate(timeout=120)
    assert (said, ran()) == ("noted sdk\n", ["sdk"]), told
    assert asked["id"] in told


def test_a_denial_reaches_the_model(started, person, name, ran):
    client = started()
    person.decides(person.sees(name), "deny", comment="Not this one.")
    said, told = client.communicate(timeout=120)
    assert "Not this one." in said, told
    assert ran() == []


def test_nothing_runs_with_a_wrong_token(started, ran):
    said, told = started(HANDRAIL_TOKEN="hr_wrong").communicate(timeout=120)
    assert "this call was not made" in said, told
    assert ran() == []

"""`manage.py prove AGENT`: heard, denied, and nothing runs without a desk, on the person's own program and settings."""

import io
import json
import os
import sys
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from approvals.agents import dialects
from approvals.connect import agent_home
from approvals.connect.connections import connection_of
from approvals.models import Action
from workspaces.models import Environment, Runner, State, Workspace

AGENT = Path(__file__).with_name("qwen_like.py")
QWEN = dialects.find("qwen")


@pytest.fixture
def person(tmp_path, monkeypatch, settings):
    """A home with an agent's program on its PATH, and settings of the person's own."""
    settings.HANDRAIL_HOME = tmp_path / "handrail"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "bin").mkdir()
    (tmp_path / ".qwen").mkdir()
    own = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": f"touch {tmp_path}/own-hook-ran"}]}]}}
    (tmp_path / QWEN.settings_file).write_text(json.dumps(own | {"mcpServers": {"mine": {"command": "false"}}}))
    installed(tmp_path)
    return tmp_path


def installed(home: Path, *changes: tuple[str, str]):
    """Put the program on the PATH, with changes in its text."""
    text = AGENT.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    program = home / "bin" / "qwen"
    program.write_text(f"#!{sys.executable}\n{text}")
    program.chmod(0o755)


@pytest.fixture
def connected(person, team, agent, settings):
    """A folder of the person's that is connected, as `connect qwen` leaves it."""
    folder = person / "shop"
    folder.mkdir()
    environment = Environment.objects.create(team=team, name="folder-shop", driver="folder", minimum_isolation="none")
    workspace = Workspace.objects.create(
        team=team,
        key="shop",
        environment=environment,
        state=State.READY,
        source={"path": str(folder)},
        created_by_agent=agent,
        runner=Runner.objects.get_or_create(host=settings.HANDRAIL_HOST_NAME)[0],
    )
    agent_home._write_connection(QWEN, agent_home.connection_of(QWEN), team, agent)
    agent_home.put_hook_in(QWEN, agent_home.connection_of(QWEN))
    connection_of(workspace).write_text(json.dumps({"agent": "qwen", "path": str(folder), "connected": True}))
    return folder


def proved(*words: str) -> tuple[int, dict[str, tuple[str, str]], str]:
    """The exit status, {line: (yes or NO, what was seen)}, and all that was printed."""
    out, status, said = io.StringIO(), 0, ""
    try:
        call_command("prove", *words, stdout=out, stderr=out)
    except SystemExit as ended:
        status = ended.code
    except CommandError as error:
        status, said = error.returncode, str(error)
    names = ("heard", "denied", "out of reach")
    rows = [line for line in out.getvalue().splitlines() if line[:2] == "  " and line[2:16].strip() in names]
    return status, {row[2:16].strip(): (row[16:21].strip(), row[21:]) for row in rows}, out.getvalue() + said


def test_a_working_gate_is_proven_without_touching_the_persons_files(person, connected):
    before = (person / QWEN.settings_file).read_bytes()
    status, lines, printed = proved("qwen", str(connected))
    assert (status, {name: holds for name, (holds, _) in lines.items()}) == (
        0, {"heard": "yes", "denied": "yes", "out of reach": "yes"}), printed  # fmt: skip
    assert "Qwen Code 0.24.4" in printed
    assert "The gate holds" in printed
    assert (person / QWEN.settings_file).read_bytes() == before
    assert list(connected.glob("ran")) == []
    assert not (person / "own-hook-ran").exists()
    assert not Action.objects.exists()


def test_the_proof_names_a_program_that_runs_its_tool_without_a_desk(person, connected):
    installed(person, ('LEAKS = "0.24.4", False', 'LEAKS = "0.24.4", True'))
    status, lines, printed = proved("qwen")
    assert (status, lines["heard"][0], lines["denied"][0]) == (1, "yes", "yes"), printed
    assert lines["out of reach"] == ("NO", "the call RAN while the desk was out of reach")
    assert "The gate of Qwen Code is not proven." in printed


def test_the_proof_names_a_missing_hook(person, connected):
    settings = json.loads((person / QWEN.settings_file).read_text())
    (person / QWEN.settings_file).write_text(json.dumps(settings | {"disableAllHooks": True}))
    status, lines, printed = proved("qwen", str(connected))
    assert (status, lines["heard"]) == (1, ("NO", "the call did not arrive at the desk; it ran all the same"))
    assert {holds for holds, _ in lines.values()} == {"NO"}
    assert "no longer keeps hooks switched on" in printed


def test_a_program_that_ends_at_once_proves_nothing(person, connected):
    installed(person, ("        main(", '        sys.exit("no licence") or main('))
    status, lines, printed = proved("qwen", str(connected))
    assert (status, lines["out of reach"], "no licence" in printed) == (1, ("NO", "the call was not made"), True)


def test_without_the_program_or_with_an_old_one_it_says_so(person, connected):
    installed(person, ('VERSION, LEAKS = "0.24.4"', 'VERSION, LEAKS = "0.9.1"'))
    status, _, printed = proved("qwen", str(connected))
    assert (status, "Qwen Code 0.9.1 is too old" in printed) == (1, True), printed
    (person / "bin" / "qwen").unlink()
    status, _, printed = proved("qwen", str(connected))
    assert (status, "Qwen Code (`qwen`) is not on this PATH. Install 0.24.4 or later." in printed) == (1, True), printed


def test_an_agent_that_is_not_connected_gets_the_command_to_connect_it(person, team):
    status, _, printed = proved("qwen", str(person))
    assert (status, f"manage.py connect qwen {person}" in printed) == (1, True), printed

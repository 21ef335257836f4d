"""The hook in a settings file of the user's home: beside what is there, noticed when it is gone, taken out whole."""

import json
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from approvals.agents import dialects, home_settings
from approvals.agents.hook_programs import hook_command
from dashboard.problems import Problem

HOME_AGENTS = [dialect for dialect in dialects.ALL if dialect.settings_file]
NOBODY = 65534
MERGING = [dialect for dialect in HOME_AGENTS if not dialect.owns_file]


@pytest.fixture(params=HOME_AGENTS, ids=lambda dialect: dialect.name)
def dialect(request):
    return request.param


@pytest.fixture
def connection(tmp_path):
    return tmp_path / "handrail" / "connection.json"


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def hooks_of(connection):
    return lambda dialect: dialect.hooks(
        lambda role, event="": hook_command(connection, role, dialect.name, event, python="python3")
    )


def put(dialect, home, hooks, connection):
    home_settings.put_in(dialect, home, hooks, ours=str(connection))
    return home / dialect.settings_file


def test_without_a_file_it_is_made_and_removed_again(dialect, home, hooks_of, connection):
    file = put(dialect, home, hooks_of(dialect), connection)
    assert str(connection) in file.read_text()
    assert home_settings.problem(dialect, home, hooks_of(dialect)) == ""
    home_settings.take_out(dialect, home, ours=str(connection), before=None)
    assert not file.exists()


def test_put_in_twice_it_is_there_once(dialect, home, hooks_of, connection):
    file = put(dialect, home, hooks_of(dialect), connection)
    once = file.read_text()
    assert put(dialect, home, hooks_of(dialect), connection).read_text() == once


def test_a_file_that_is_gone_or_changed_is_noticed(dialect, home, hooks_of, connection):
    file = put(dialect, home, hooks_of(dialect), connection)
    file.write_text("{}")
    assert str(file) in home_settings.problem(dialect, home, hooks_of(dialect))
    file.unlink()
    assert home_settings.problem(dialect, home, hooks_of(dialect)) == f"{file} is gone, and Handrail's hook with it."


@pytest.mark.parametrize("merging", MERGING, ids=lambda dialect: dialect.name)
def test_the_users_own_settings_stay_and_come_back_byte_for_byte(merging, home, hooks_of, connection):
    file = home / merging.settings_file
    file.parent.mkdir(parents=True)
    event = next(iter(hooks_of(merging)))
    mine = {"matcher": "x", "hooks": [{"type": "command", "command": "echo"}]}
    before = json.dumps({"model": "m", "hooks": {event: [mine]}} | _switched_off(merging), indent=7)
    file.write_text(before)
    put(merging, home, hooks_of(merging), connection)
    now = json.loads(file.read_text())
    assert (now["model"], now["hooks"][event][0]) == ("m", mine)
    assert home_settings.problem(merging, home, hooks_of(merging)) == ""
    home_settings.take_out(merging, home, ours=str(connection), before=before)
    assert file.read_text() == before


@pytest.mark.parametrize("merging", MERGING, ids=lambda dialect: dialect.name)
def test_a_change_of_the_user_meanwhile_stays(merging, home, hooks_of, connection):
    file = put(merging, home, hooks_of(merging), connection)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"model": "new"}))
    home_settings.take_out(merging, home, ours=str(connection), before=None)
    assert json.loads(file.read_text()) == {"model": "new"}


@pytest.mark.parametrize("merging", [d for d in MERGING if d.switches], ids=lambda dialect: dialect.name)
def test_hooks_that_are_switched_off_are_noticed(merging, home, hooks_of, connection):
    file = put(merging, home, hooks_of(merging), connection)
    file.write_text(json.dumps(json.loads(file.read_text()) | _switched_off(merging)))
    assert "switched on" in home_settings.problem(merging, home, hooks_of(merging))


def _switched_off(dialect) -> dict:
    switches = {"qwen": {"disableAllHooks": True}, "gemini": {"hooksConfig": {"enabled": False}}}
    switches["cursor"] = {"version": 0}
    return switches.get(dialect.name, {})


@pytest.mark.parametrize("merging", MERGING, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("text", ["{", "[]", '{"hooks": []}'])
def test_a_file_that_is_not_understood_is_left_alone(merging, home, hooks_of, connection, text):
    file = home / merging.settings_file
    file.parent.mkdir(parents=True)
    file.write_text(text)
    with pytest.raises(Problem):
        put(merging, home, hooks_of(merging), connection)
    assert file.read_text() == text


def test_a_symlink_is_not_written_through(dialect, home, hooks_of, connection):
    file = home / dialect.settings_file
    file.parent.mkdir(parents=True)
    (home / "elsewhere").write_text("{}")
    file.symlink_to(home / "elsewhere")
    with pytest.raises(Problem):
        put(dialect, home, hooks_of(dialect), connection)
    assert (home / "elsewhere").read_text() == "{}"


def commands_of(dialect, hooks) -> dict[str, str]:
    """{event: the shell command that the agent runs}."""
    if dialect.name == "copilot":
        return {event: entries[0]["bash"] for event, entries in json.loads(hooks)["hooks"].items()}
    return {event: group.get("hooks", [group])[0]["command"] for event, group in hooks.items()}


def test_a_folder_that_cannot_be_written_ends_in_a_sentence_and_changes_nothing(dialect, home, hooks_of, connection):
    top = home / dialect.settings_file.split("/", maxsplit=1)[0]
    top.write_text("A file where the agent's folder would be.")
    with pytest.raises(Problem, match=r"cannot be (read|written)"):
        put(dialect, home, hooks_of(dialect), connection)
    assert top.is_file()


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a folder to another user")
def test_a_folder_that_root_owns_ends_in_a_sentence_and_is_left_alone(dialect, hooks_of, connection):
    home = Path(tempfile.mkdtemp())
    file = home / dialect.settings_file
    file.parent.mkdir(parents=True)
    file.write_text("{}\n")
    home.chmod(0o755)
    os.chown(home, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    try:
        with pytest.raises(Problem, match=r"cannot be written \(Permission denied"):
            put(dialect, home, hooks_of(dialect), connection)
        home_settings.take_out(dialect, home, ours=str(connection), before="{}\n")  # the undo of `connect`
    finally:
        os.seteuid(0)
    assert file.read_text() == "{}\n"
    shutil.rmtree(home)


@pytest.mark.parametrize("name", ["codex", "qwen", "gemini", "copilot"])
def test_the_gates_command_blocks_when_its_program_is_not_there(name, hooks_of):
    dialect = dialects.find(name)
    gates = [command for command in commands_of(dialect, hooks_of(dialect)).values() if " gate " in command]
    assert len(gates) == 1
    gone = gates[0].replace("python3", "/nowhere/python3")
    assert subprocess.run(["/bin/sh", "-c", gone], capture_output=True).returncode == 2
    assert shlex.split(gates[0])[-2:] == ["exit", "2"]


def test_the_plugin_of_opencode_holds_the_programs_line(hooks_of, connection):
    text = hooks_of(dialects.find("opencode"))
    line = next(row for row in text.splitlines() if row.startswith("const LINE = "))
    words = json.loads(line.removeprefix("const LINE = "))
    assert (words[0], words[-1]) == ("python3", str(connection))

"""A connected folder of Claude Code has no hole: what starts anywhere below it is gated by its user's settings."""

import json
import re
import subprocess
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from .test_connect_folder import ask, folder, hook_line  # noqa: F401 - a fixture
from .test_hook_watch import events, noticed, told

USERS = {"model": "opus", "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}


@pytest.fixture
def settings_file(product) -> Path:
    """The user's own settings of Claude Code, in a form that no program writes; as they were afterwards."""
    file = Path(product.environment["HOME"]) / ".claude/settings.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(USERS, indent=7) + "\n\n")
    yield file
    file.unlink()


@pytest.fixture
def connected(product, settings_file, folder):  # noqa: F811
    done = product.manage("connect", "claude-code", str(folder))
    assert done.returncode == 0, done.stderr
    assert f"Sessions that start anywhere below {folder} are gated, in nested repositories too" in done.stdout
    yield folder
    product.manage("disconnect", str(folder))


def line_of_home(file: Path) -> str:
    return json.loads(file.read_text())["hooks"]["PreToolUse"][-1]["hooks"][0]["command"]


def test_both_files_hold_the_same_hooks_so_that_claude_code_runs_each_once(connected, settings_file):
    ours = json.loads((connected / ".claude/settings.local.json").read_text())["hooks"]
    users = json.loads(settings_file.read_text())["hooks"]
    assert all(groups[-1] in users[event] for event, groups in ours.items())
    assert USERS["hooks"]["Stop"][0] in users["Stop"]


@pytest.mark.parametrize("where", ["sub", "deep/er", "."])
def test_a_call_below_the_folder_is_asked_about(connected, settings_file, where):
    place = connected / where
    place.mkdir(parents=True, exist_ok=True)
    if where == "sub":
        subprocess.run(["git", "init", "-q", "."], cwd=place, check=True)
    answer = ask(place, "Glob", {"pattern": "*"}, line_of_home(settings_file))
    assert json.loads(answer.stdout)["hookSpecificOutput"]["permissionDecision"] == "allow"


def test_a_linked_worktree_beside_the_folder_is_asked_about(connected, settings_file, tmp_path):
    subprocess.run(["git", "worktree", "add", "-q", tmp_path / "beside"], cwd=connected, check=True)
    for line in (hook_line(connected), line_of_home(settings_file)):
        answer = ask(tmp_path / "beside", "Glob", {"pattern": "*"}, line.replace(".json", ".gone"))
        assert (answer.returncode, "nothing is allowed" in answer.stderr) == (2, True)  # it did not let it pass


def test_elsewhere_it_says_nothing_and_needs_nothing(product, connected, settings_file, tmp_path):
    elsewhere = tmp_path / f"{connected.name}-other"
    elsewhere.mkdir()
    line = line_of_home(settings_file).replace(".json", ".gone")
    # As Claude Code does, whose working directory is the hook's.
    event = {"session_id": "s1", "cwd": str(elsewhere), "hook_event_name": "PreToolUse", "tool_name": "Bash"}
    done = subprocess.run(
        ["/bin/sh", "-c", line], input=json.dumps(event), capture_output=True, text=True, cwd=elsewhere
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    # A session that has started below the folder stays gated wherever it goes.
    done = subprocess.run(
        ["/bin/sh", "-c", line], input=json.dumps(event), capture_output=True, text=True, cwd=elsewhere,
        env={"CLAUDE_PROJECT_DIR": str(connected / "sub")},
    )  # fmt: skip
    assert (done.returncode, "nothing is allowed" in done.stderr) == (2, True)


def test_disconnect_leaves_the_users_settings_byte_for_byte(product, settings_file, folder, tmp_path):  # noqa: F811
    before = settings_file.read_bytes()
    other = tmp_path / "other"
    other.mkdir()
    for path in (folder, other):
        assert product.manage("connect", "claude-code", str(path)).returncode == 0
    assert product.manage("disconnect", str(folder)).returncode == 0
    assert str(folder) not in settings_file.read_text()
    assert f"below={other}" in settings_file.read_text()
    assert product.manage("disconnect", str(other)).returncode == 0
    assert settings_file.read_bytes() == before


def test_an_unwritable_settings_file_is_named_at_connect_and_on_the_page(product, settings_file, folder, tmp_path):  # noqa: F811
    own = tmp_path / "dotfiles.json"
    settings_file.rename(own)
    settings_file.symlink_to(own)
    done = product.manage("connect", "claude-code", str(folder))
    assert done.returncode == 0, done.stderr
    assert "inside this one, or with --setting-sources user, has no gate" in done.stdout
    product.manage("disconnect", str(folder))
    assert json.loads(own.read_text()) == USERS


def test_a_settings_file_that_switches_hooks_off_is_named(product, settings_file, folder):  # noqa: F811
    settings_file.write_text(json.dumps({"disableAllHooks": True}))
    done = product.manage("connect", "claude-code", str(folder))
    assert "switches hooks off (disableAllHooks)" in done.stdout
    product.manage("disconnect", str(folder))
    assert json.loads(settings_file.read_text()) == {"disableAllHooks": True}


def test_page_and_api_name_a_session_that_no_hook_announced(product, connected):
    place = Path(product.environment["HOME"]) / ".claude/projects" / re.sub("[^A-Za-z0-9]", "-", f"{connected}/sub")
    place.mkdir(parents=True)
    began = (datetime.now(UTC) - timedelta(minutes=1)).isoformat()
    row = {"type": "user", "cwd": f"{connected}/sub", "sessionId": "s", "timestamp": began, "message": {"role": "user"}}
    elsewhere = row | {"cwd": f"{connected}-sub"}  # whose folder has the same name there
    (place / f"{uuid.uuid4()}.jsonl").write_text(json.dumps(elsewhere) + "\n")
    assert told(product, connected) == ""
    (place / f"{uuid.uuid4()}.jsonl").write_text(json.dumps({"type": "mode"}) + "\n" + json.dumps(row) + "\n")
    said = noticed(product, connected, "without Handrail's gate")
    assert said.startswith(f"A session of Claude Code ran in {connected}/sub without Handrail's gate, at ")
    assert "workspace.hook_missing" in events(product, connected)[-1]

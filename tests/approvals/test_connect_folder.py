"""`connect claude-code PATH`: one command gates a folder, and one leaves it as it was."""

import json
import shlex
import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path):
    """A repository with a committed hook of its own and a local settings file that ignores nothing."""
    path = tmp_path / "calc"
    (path / ".claude").mkdir(parents=True)
    (path / ".claude/settings.json").write_text(
        json.dumps({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}})
    )
    (path / "calc.py").write_text("print(1)\n")
    for args in (["init", "-q"], ["add", "."], ["-c", "user.name=T", "-c", "user.email=t@e", "commit", "-qm", "one"]):
        subprocess.run(["git", *args], cwd=path, check=True)
    return path


def status(path):
    return subprocess.run(["git", "status", "--short"], cwd=path, check=True, capture_output=True, text=True).stdout


def hook_line(path):
    hooks = json.loads((path / ".claude/settings.local.json").read_text())["hooks"]["PreToolUse"]
    return hooks[-1]["hooks"][0]["command"]


def ask(path, tool, tool_input, command=None):
    call = {
        "session_id": "s1",
        "cwd": str(path),
        "hook_event_name": "PreToolUse",
        "tool_name": tool,
        "tool_input": tool_input,
        "tool_use_id": "t1",
    }
    return subprocess.run(
        ["/bin/sh", "-c", command or hook_line(path)],
        input=json.dumps(call),
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.fixture
def connected(product, folder):
    done = product.manage("connect", "claude-code", str(folder))
    assert done.returncode == 0, done.stderr
    yield folder
    product.manage("disconnect", str(folder))


def test_a_folder_is_gated_and_git_sees_nothing_of_it(product, connected):
    assert status(connected) == ""
    answer = json.loads(ask(connected, "Read", {"file_path": str(connected / "calc.py")}).stdout)
    assert answer["hookSpecificOutput"]["permissionDecision"] == "allow"


def test_disconnect_leaves_the_folder_as_it_was(product, folder):
    before = (folder / ".git/info/exclude").read_bytes() if (folder / ".git/info/exclude").exists() else b""
    assert product.manage("connect", "claude-code", str(folder)).returncode == 0
    line = hook_line(folder)
    assert product.manage("disconnect", str(folder)).returncode == 0
    assert sorted(path.name for path in (folder / ".claude").iterdir()) == ["settings.json"]
    assert (folder / ".git/info/exclude").read_bytes() == before
    assert status(folder) == ""
    assert ask(folder, "Read", {"file_path": "calc.py"}, line).returncode == 2
    assert product.manage("disconnect", str(folder)).returncode == 1


def test_local_settings_with_hooks_of_their_own_stay_intact(product, folder):
    own = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "echo"}]}]}, "x": 1}
    text = json.dumps(own, indent=7)
    (folder / ".claude/settings.local.json").write_text(text)
    assert product.manage("connect", "claude-code", str(folder)).returncode == 0
    merged = json.loads((folder / ".claude/settings.local.json").read_text())
    assert merged["hooks"]["PreToolUse"][0] == own["hooks"]["PreToolUse"][0]
    assert merged["x"] == 1
    assert product.manage("disconnect", str(folder)).returncode == 0
    assert (folder / ".claude/settings.local.json").read_text() == text


def test_the_users_allow_rules_come_along_and_broad_ones_do_not(product, folder):
    rules = {"permissions": {"allow": ["Bash(make docs)", "Bash(python3 *)"]}}
    (folder / ".claude/settings.local.json").write_text(json.dumps(rules))
    done = product.manage("connect", "claude-code", str(folder))
    assert "Imported 1 of your allow rules." in done.stdout
    assert "Not imported: Bash(python3 *)" in done.stdout
    answer = json.loads(ask(folder, "Bash", {"command": "make docs"}).stdout)
    assert answer["hookSpecificOutput"]["permissionDecision"] == "allow"
    product.manage("disconnect", str(folder))


def test_a_broken_settings_file_is_refused_and_left_alone(product, folder):
    (folder / ".claude/settings.local.json").write_text("{not json")
    done = product.manage("connect", "claude-code", str(folder))
    assert done.returncode == 1
    assert "mend or remove it first" in done.stderr
    assert (folder / ".claude/settings.local.json").read_text() == "{not json"


def test_folders_that_are_refused(product, connected, tmp_path):
    (connected / "sub").mkdir()
    for path in (
        product.home,
        product.home / "keys",
        product.home.parent,
        connected,
        connected / "sub",
        tmp_path / "no",
    ):
        done = product.manage("connect", "claude-code", str(path))
        assert (done.returncode, path) == (1, path)
        assert done.stderr.strip()


@pytest.mark.parametrize("broken", ["server away", "no connection", "no python"])
def test_the_hook_says_no_whatever_is_broken(product, connected, broken):
    program, flag, hook, connection, *rest = shlex.split(hook_line(connected))
    assert rest == ["||", "exit", "2"]
    if broken == "server away":
        told = json.loads(Path(connection).read_text()) | {"address": "http://127.0.0.1:9"}
        connection = str(connected / "copy.json")
        Path(connection).write_text(json.dumps(told))
    elif broken == "no connection":
        connection = str(connected / "none.json")
    else:
        program = str(connected / "none")
    line = f"{shlex.join([program, flag, hook, connection])} || exit 2"
    refused = ask(connected, "Bash", {"command": "true"}, line)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.strip()


def test_what_it_changes_is_snapshotted_and_can_be_taken_back(product, connected):
    token = product.person_token("lead-of-folders", "lead")
    answer = json.loads(ask(connected, "Write", {"file_path": str(connected / "new.txt"), "content": "new\n"}).stdout)
    assert answer["hookSpecificOutput"]["permissionDecision"] == "allow"
    (connected / "new.txt").write_text("new\n")
    workspaces = product.get("/api/v1/workspaces", token).json["workspaces"]
    key = next(w["key"] for w in workspaces if w["source"].get("path") == str(connected))
    number = product.get(f"/api/v1/workspaces/{key}", token).json["head_snapshot"]
    hooks = (connected / ".claude/settings.local.json").read_bytes()
    told = product.post(f"/api/v1/workspaces/{key}/snapshots/{number}/restore", token)
    assert told.status == 202
    for _ in range(5):
        if product.get(f"/api/v1/workspaces/{key}?wait=5", token).json["busy"] is None:
            break
    assert not (connected / "new.txt").exists()
    assert (connected / ".claude/settings.local.json").read_bytes() == hooks

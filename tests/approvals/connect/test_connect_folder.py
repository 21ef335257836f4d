"""`connect claude-code PATH`: one command gates a folder, and one leaves it as it was."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from handrail_verify.signed import verify
from tests.support import CHECKOUT


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


def connection_in(line) -> Path:
    return Path(next(word for word in shlex.split(line) if word.endswith(".json")))


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
        cwd=path,
    )


# What `Product.manage` does, without a process for it.
CALL = "from django.core.management import call_command; call_command(*{words!r})"


@pytest.fixture
def connected(product, folder):
    printed = product.shell(CALL.format(words=["connect", "claude-code", str(folder)]))
    assert f"{CHECKOUT}/manage.py prove claude-code {folder}" in printed
    yield folder
    product.shell(CALL.format(words=["disconnect", str(folder)]))


def test_a_connected_folder_is_gated_and_git_shows_no_change(product, connected):
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
    assert (status(folder), (folder / ".handrail").exists()) == ("", False)
    assert ask(folder, "Read", {"file_path": "calc.py"}, line).returncode == 2
    assert product.manage("disconnect", str(folder)).returncode == 1


@pytest.mark.parametrize("agent", ["claude-code", "gemini"])  # gated in its folder, in its user's home
def test_the_folder_has_a_signed_manifest_until_it_is_disconnected(product, folder, tmp_path, monkeypatch, agent):
    monkeypatch.setitem(product.environment, "HOME", str(tmp_path))
    below = folder / "below"  # the repository is above what is connected
    below.mkdir()
    path, exclude = below / ".handrail/manifest.json", folder / ".git/info/exclude"
    before = exclude.read_bytes() if exclude.exists() else b""
    done = product.manage("connect", agent, str(below))
    assert done.returncode == 0, done.stderr
    verify(path.read_bytes(), product.get("/api/v1/manifests/key", product.agent_token()).json["key"])
    assert b"/below/.handrail/manifest.json\n" in exclude.read_bytes()
    assert subprocess.run(["git", "check-ignore", "-q", str(path)], cwd=folder).returncode == 0
    done = product.manage("disconnect", str(below))
    assert done.returncode == 0, done.stderr
    assert (path.parent.exists(), exclude.read_bytes()) == (False, before)


def test_local_settings_with_hooks_of_their_own_stay_intact(product, folder):
    mine = {"matcher": "Bash", "hooks": [{"type": "command", "command": "echo"}]}
    own = {"hooks": {"PreToolUse": [mine]}, "disableAllHooks": True, "x": 1}
    text = json.dumps(own, indent=7)
    (folder / ".claude/settings.local.json").write_text(text)
    assert product.manage("connect", "claude-code", str(folder)).returncode == 0
    merged = json.loads((folder / ".claude/settings.local.json").read_text())
    assert merged["hooks"]["PreToolUse"][0] == own["hooks"]["PreToolUse"][0]
    assert (merged["x"], merged["disableAllHooks"]) == (1, False)
    assert product.manage("disconnect", str(folder)).returncode == 0
    assert (folder / ".claude/settings.local.json").read_text() == text


def allowing(*rules) -> str:
    return json.dumps({"permissions": {"allow": rules}})


def decision_on(folder, command) -> str:
    answer = json.loads(ask(folder, "Bash", {"command": command}).stdout)
    return answer["hookSpecificOutput"]["permissionDecision"]


def test_the_users_own_rules_are_imported_and_shown_and_broad_ones_are_not(product, folder):
    (folder / ".claude/settings.local.json").write_text(allowing("Bash(make docs)", "Bash(python3 *)"))
    done = product.manage("connect", "claude-code", str(folder))
    assert "Imported: Bash(make docs)\n" in done.stdout
    assert "Not imported: Bash(python3 *)" in done.stdout
    assert decision_on(folder, "make docs") == "allow"
    product.manage("disconnect", str(folder))


def test_the_policy_that_imported_rules_make_trusts_what_the_teams_does(product, folder, trusts_a_place):
    (folder / ".claude/settings.local.json").write_text(allowing("Bash(make docs)"))
    product.manage("connect", "claude-code", str(folder))
    [text] = policies_of(product, folder)
    assert tomllib.loads(text)["trust"] == {"code_host": True, "places": ["/srv/shared"]}
    product.manage("disconnect", str(folder))


def commit_rules(folder, name, *rules):
    (folder / name).write_text(allowing(*rules))
    for args in (["add", "-f", name], ["-c", "user.name=T", "-c", "user.email=t@e", "commit", "-qm", "rules"]):
        subprocess.run(["git", *args], cwd=folder, check=True)


@pytest.mark.parametrize("name", [".claude/settings.json", ".claude/settings.local.json"])
def test_rules_that_a_repository_committed_are_shown_and_not_imported(product, folder, name):
    commit_rules(folder, name, "Bash(./pwn.sh)")
    done = product.manage("connect", "claude-code", str(folder))
    assert "Bash(./pwn.sh)" in done.stdout
    assert "They are not imported" in done.stdout
    assert "\nImported:" not in done.stdout
    assert policies_of(product, folder) == []
    product.manage("disconnect", str(folder))


def test_rules_of_a_folder_that_is_no_repository_are_not_taken_for_the_users(product, tmp_path):
    unpacked = tmp_path / "unpacked"
    (unpacked / ".claude").mkdir(parents=True)
    (unpacked / ".claude/settings.local.json").write_text(allowing("Bash(./pwn.sh)"))
    done = product.manage("connect", "claude-code", str(unpacked))
    assert "They are not imported" in done.stdout
    assert policies_of(product, unpacked) == []
    product.manage("disconnect", str(unpacked))


def test_a_flag_accepts_the_repositorys_rules(product, folder):
    commit_rules(folder, ".claude/settings.json", "Bash(make docs)")
    done = product.manage("connect", "claude-code", str(folder), "--accept-repository-rules")
    assert "Imported: Bash(make docs)\n" in done.stdout
    assert decision_on(folder, "make docs") == "allow"
    product.manage("disconnect", str(folder))


def test_rules_of_an_earlier_folder_of_the_same_name_are_not_inherited(product, folder):
    (folder / ".claude/settings.local.json").write_text(allowing("Bash(make docs)"))
    assert product.manage("connect", "claude-code", str(folder), "--key", "twice").returncode == 0
    assert product.manage("disconnect", str(folder)).returncode == 0
    (folder / ".claude/settings.local.json").unlink()
    assert product.manage("connect", "claude-code", str(folder), "--key", "twice").returncode == 0
    in_force = product.shell(
        "from approvals.models import Policy\n"
        "print(Policy.objects.filter(environment__name='folder-twice', active=True).count())"
    )
    assert in_force == "0"
    product.manage("disconnect", str(folder))


@pytest.mark.parametrize(
    ("typed", "imported"),
    [("y\n", ["one", "two"]), ("n\n", []), ("e\ny\nn\nn\n", ["one"]), ("maybe\nn\n", [])],
)
def test_on_a_terminal_each_rule_is_shown_and_asked_for(product, folder, typed, imported):
    commit_rules(folder, ".claude/settings.json", "Bash(make one)", "Bash(make two)", "Bash(echo \u202e)")
    shown = on_a_terminal(product, "y\n" + typed, "connect", "claude-code", str(folder))  # yes, connect it
    assert "  Bash(make one)" in shown
    assert "  Bash(echo \\u202e)" in shown  # as its code: it could turn the line round
    taken = [line.split("make ")[1][:3] for line in shown.splitlines() if line.startswith("Imported: ")]
    assert taken == imported
    product.manage("disconnect", str(folder))


def on_a_terminal(product, typed, *args) -> str:
    """What the command prints on a pseudo-terminal when somebody types this."""
    master, slave = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "manage.py", *args],
        cwd=CHECKOUT,
        env=product.environment,
        stdin=slave,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    os.close(slave)
    os.write(master, typed.encode())
    out = process.communicate(timeout=120)[0]
    os.close(master)
    assert process.returncode == 0, out
    return out


def policies_of(product, folder) -> list:
    """Versions of policies that the folder has for itself."""
    return json.loads(
        product.shell(
            "import json; from approvals.models import Policy; from workspaces.models import Workspace\n"
            f"w = Workspace.objects.kept().get(source__path={str(folder)!r})\n"
            "print(json.dumps(list(Policy.objects.filter(environment=w.environment).values_list('text', flat=True))))"
        )
    )


def test_the_hook_fails_closed_also_when_its_shell_dies_or_its_time_is_over(connected):
    hooks = json.loads((connected / ".claude/settings.local.json").read_text())["hooks"]
    [gate] = hooks["PreToolUse"][0]["hooks"]
    assert (hooks["PreToolUse"][0]["matcher"], gate["onFailure"], gate["timeout"]) == ("*", "block", 86_400)
    assert gate["command"].endswith("; exit 2")
    assert sorted(hooks) == [
        "Elicitation",
        "Notification",
        "PermissionRequest",
        "PostToolUse",
        "PostToolUseFailure",
        "PreToolUse",
        "SessionEnd",
        "SessionStart",
        "Stop",
        "SubagentStop",
        "UserPromptSubmit",
    ]
    ends = {event: groups[0]["hooks"][0]["command"].split()[-1] for event, groups in hooks.items()}
    assert (ends.pop("PreToolUse"), ends.pop("Elicitation")) == ("2", "2")
    assert set(ends.values()) == {"1"}  # 2 would refuse a prompt, or the end of a turn


def test_the_developers_terminal_says_where_to_approve(product, connected):
    [gate] = json.loads((connected / ".claude/settings.local.json").read_text())["hooks"]["PreToolUse"][0]["hooks"]
    assert gate["statusMessage"] == f"Asking Handrail. Answer at {product.url}/waiting/"


def test_the_test_call_leaves_no_open_action(product, connected):
    assert actions_in(product, connected) == "Glob:succeeded"


def test_a_policy_that_asks_before_the_test_call_does_not_hold_connect_up(product, folder, before_everything):
    done = product.manage("connect", "claude-code", str(folder))
    assert done.returncode == 0, done.stderr
    assert "your policy asks a person first, so it was cancelled." in done.stdout
    assert actions_in(product, folder) == "Glob:cancelled"
    product.manage("disconnect", str(folder))


def actions_in(product, folder) -> str:
    return product.shell(
        "from approvals.models import Action\n"
        f"found = Action.objects.filter(workspace__source__path={str(folder)!r}).order_by('created_at')\n"
        "print(*(f'{action.tool}:{action.status}' for action in found))"
    )


def set_team_policy(product, mode: str = "irreversible", more: str = ""):
    product.shell(
        "from approvals.evaluation import policies; from approvals.policy import default_policy\n"
        "from dashboard.models import *\n"
        "team = Team.objects.get(slug='main')\n"
        f"policies.add(team.pk, default_policy({mode!r}) + {more!r}, actor=Actor.system('test'))"
    )


@pytest.fixture
def before_everything(product):
    """The team's policy asks before everything, for this test."""
    set_team_policy(product, "everything")
    yield
    set_team_policy(product)


@pytest.fixture
def trusts_a_place(product):
    """The team's policy trusts a place and reads at the code host, for this test."""
    set_team_policy(product, more='\n[trust]\ncode_host = true\nplaces = ["/srv/shared"]\n')
    yield
    set_team_policy(product)


def key_of(product, token, folder) -> str:
    workspaces = product.get("/api/v1/workspaces", token).json["workspaces"]
    return next(w["key"] for w in workspaces if w["source"].get("path") == str(folder))


def test_a_repository_whose_settings_put_code_around_the_hook_is_not_connected(product, folder):
    file = folder / ".claude/settings.json"
    before = json.dumps({"env": {"CLAUDE_CODE_SHELL_PREFIX": "./wrap.sh"}})
    file.write_text(before)
    done = product.manage("connect", "claude-code", str(folder))
    assert (done.returncode, f"{file} sets CLAUDE_CODE_SHELL_PREFIX" in done.stderr) == (1, True)
    assert sorted(path.name for path in (folder / ".claude").iterdir()) == ["settings.json"]
    assert file.read_text() == before


def test_the_token_ends_with_the_connection(product, folder):
    assert product.manage("connect", "claude-code", str(folder)).returncode == 0
    connection = connection_in(hook_line(folder))
    token = json.loads(connection.read_text())["token"]
    assert product.get("/api/v1/me", token).status == 200
    assert product.manage("disconnect", str(folder)).returncode == 0
    assert product.get("/api/v1/me", token).status == 401
    assert not connection.exists()
    prefix = token[:11]
    verbs = product.shell(
        "from dashboard.models import Event\n"
        f"print(*Event.objects.filter(data__prefix={prefix!r}).order_by('seq').values_list('verb', flat=True))"
    )
    assert verbs == "token.created token.revoked"


@pytest.mark.parametrize(
    ("printed", "said"),
    [("2.1.294 (Claude Code)", "2.1.294 is too old"), ("", "of an unknown version is too old")],
)
def test_an_old_claude_code_is_refused(product, folder, tmp_path, monkeypatch, printed, said):
    program = tmp_path / "bin/claude"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho '{printed}'\n")
    program.chmod(0o755)
    monkeypatch.setitem(product.environment, "PATH", f"{program.parent}:{product.environment['PATH']}")
    done = product.manage("connect", "claude-code", str(folder))
    assert (done.returncode, said in done.stderr) == (1, True)
    assert not (folder / ".claude/settings.local.json").exists()


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
    line = hook_line(connected)
    connection = connection_in(line)
    if broken == "server away":
        told = json.loads(connection.read_text()) | {"address": "http://127.0.0.1:9", "patience_s": 2}
        (connected / "copy.json").write_text(json.dumps(told))
        line = line.replace(str(connection), str(connected / "copy.json"))
    elif broken == "no connection":
        line = line.replace(str(connection), str(connected / "none.json"))
    else:
        line = re.sub(r"\S+ -IS", "/none/python -IS", line)
    refused = ask(connected, "Bash", {"command": "true"}, line)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.strip()


def test_a_change_in_a_connected_folder_can_be_undone_by_a_snapshot(product, connected):
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


@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest"])
def test_another_hook_that_could_change_a_call_is_named(product, folder, event):
    hooks = {event: [{"hooks": [{"type": "command", "command": "true"}]}]}
    (folder / ".claude/settings.json").write_text(json.dumps({"hooks": hooks}))
    done = product.manage("connect", "claude-code", str(folder))
    assert f"Calls cannot be held in this folder: {folder}/.claude/settings.json has another hook" in done.stdout
    assert product.manage("disconnect", str(folder)).returncode == 0


def test_hooks_that_change_no_call_are_not_named(product, folder):
    done = product.manage("connect", "claude-code", str(folder))
    assert "cannot be held" not in done.stdout
    assert product.manage("disconnect", str(folder)).returncode == 0

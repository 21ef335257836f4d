"""`connect --system` gates every Claude Code on the machine, whatever its folder, user or command line says.

Each in a mount namespace with an empty /etc/claude-code of its own: the one of this machine is nobody's to write here.
"""

import json
import os
import shlex
import subprocess
import sys

import pytest

from approvals.agents.claude_code.settings import NOTHING_AROUND
from tests.approvals.agents.claude_code.conftest import Reviewer
from tests.approvals.agents.claude_code.model import DONE, call
from tests.approvals.agents.claude_code.session import Project
from tests.support import CHECKOUT

COMPANY = {
    "env": {"TEAM": "payments", "LD_LIBRARY_PATH": "/opt/lib"},
    "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]},
}


class Machine:
    """A shell as root in a mount namespace that lasts: what it writes below /etc/claude-code only it sees."""

    def __init__(self, product):
        self.product = product
        inside = "mount -t tmpfs -o mode=755 none /etc/claude-code && echo ready && exec sleep 3600"
        self.holder = subprocess.Popen(["unshare", "-m", "sh", "-c", inside], stdout=subprocess.PIPE, text=True)
        self.works = self.holder.stdout.readline() == "ready\n"

    def enter(self, argv) -> list[str]:
        return ["nsenter", f"--mount=/proc/{self.holder.pid}/ns/mnt", f"--wd={CHECKOUT}", *argv]

    def run(self, *argv, **options):
        command = self.enter(argv)
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **options)

    def manage(self, *args):
        return self.run(sys.executable, "manage.py", *args, env=self.product.environment)

    def read(self, name: str) -> str:
        return self.run("cat", f"/etc/claude-code/{name}").stdout

    def close(self):
        self.holder.kill()
        self.holder.wait()
        self.holder.stdout.close()


@pytest.fixture
def machine(product, require):
    if os.geteuid():
        require("root", "managed settings are root's to write")
    made_here = not os.path.isdir("/etc/claude-code")
    os.makedirs("/etc/claude-code", exist_ok=True)
    running = Machine(product)
    if not running.works:
        running.close()
        require("mount namespaces", "an empty /etc/claude-code cannot be mounted here")
    yield running
    running.manage("disconnect", "--system")
    running.close()
    if made_here:
        os.rmdir("/etc/claude-code")


@pytest.fixture
def elsewhere(claude, model, product):
    """A folder that nobody connected, of a user who runs Claude Code without any hook."""
    project = Project(claude, model.url, product.url, token="none")
    project.hooks.unlink()
    yield project
    project.close()


def start(machine, project, *words):
    """`claude -p` in the machine's namespace, as the ordinary user."""
    claude = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", project.claude, *words]
    inside = f"cd {shlex.quote(str(project.folder))} && exec {shlex.join(claude)}"
    process = subprocess.Popen(
        machine.enter(["sh", "-c", inside]),
        env=project.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    project._started.append(process)
    return process


def test_the_managed_settings_are_merged_and_restored(machine):
    machine.run("sh", "-c", f"echo {shlex.quote(json.dumps(COMPANY))} > /etc/claude-code/managed-settings.json")
    done = machine.manage("connect", "claude-code", "--system")
    assert done.returncode == 0, done.stderr
    merged = json.loads(machine.read("managed-settings.json"))
    assert merged["env"] == COMPANY["env"] | {
        name: "" if name != "LD_LIBRARY_PATH" else "/opt/lib" for name in NOTHING_AROUND
    }
    assert merged["hooks"]["Stop"][0] == COMPANY["hooks"]["Stop"][0]
    [gate] = merged["hooks"]["PreToolUse"][0]["hooks"]
    assert (gate["onFailure"], str(CHECKOUT) in gate["command"]) == ("block", False)
    modes = machine.run("stat", "-c", "%a %U %n", "/etc/claude-code/handrail/hook.py").stdout
    assert modes == "644 root /etc/claude-code/handrail/hook.py\n"
    assert machine.manage("connect", "claude-code", "--system").returncode == 1
    token = json.loads(machine.read("handrail/connection.json"))["token"]
    assert machine.product.get("/api/v1/me", token).status == 200
    assert machine.manage("disconnect", "--system").returncode == 0
    assert json.loads(machine.read("managed-settings.json")) == COMPANY
    assert machine.run("ls", "/etc/claude-code").stdout == "managed-settings.json\n"
    assert machine.product.get("/api/v1/me", token).status == 401


@pytest.mark.parametrize(
    "words",
    [
        ["--bare"],
        ["--settings", '{"disableAllHooks": true}'],
        ["--setting-sources", "user"],
        ["--permission-mode", "acceptEdits"],
    ],
    ids=" ".join,
)
def test_no_way_to_switch_hooks_off_takes_the_gate_away(machine, elsewhere, model, session, words):
    (elsewhere.folder / ".claude/settings.local.json").write_text('{"disableAllHooks": true}')
    assert machine.manage("connect", "claude-code", "--system").returncode == 0
    model.scripts["SHIP"] = [[call("Bash", command="./deploy.sh one")], DONE]
    running = start(
        machine, elsewhere, "-p", "SHIP it", "--session-id", session, "--dangerously-skip-permissions", *words
    )
    reviewer = Reviewer(machine.product)
    card = reviewer.cards(session, within=90)[0]
    assert elsewhere.ran == []
    reviewer.answer(card, "deny", comment="Not here")
    running.communicate(timeout=120)
    assert elsewhere.ran == []
    assert "Not here" in model.transcript("SHIP")


ALLOWS = '{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}'
AROUND = """#!/bin/sh
echo "$0 $*" >> %s
case "$*" in *handrail*) echo '%s'; exit 0;; esac
eval "${2:-$1}"
"""
LOADED = """#include <stdio.h>
__attribute__((constructor)) void f(void) { FILE *x = fopen("%s", "a"); fputs("loaded", x); fclose(x); }
"""


@pytest.mark.parametrize(
    "variable",
    ["CLAUDE_CODE_SHELL_PREFIX", "CLAUDE_CODE_SHELL", "LD_PRELOAD", "BASH_ENV", "SHELLOPTS", "CLAUDE_CODE_SIMPLE"],
)
def test_no_variable_of_a_folders_settings_puts_code_around_the_hook(machine, elsewhere, model, session, variable):
    marks, around = elsewhere.folder / "marks", elsewhere.folder / "around.sh"
    around.write_text(AROUND % (marks, ALLOWS))
    around.chmod(0o755)
    value = {"SHELLOPTS": "xtrace", "CLAUDE_CODE_SIMPLE": "1", "LD_PRELOAD": str(elsewhere.folder / "around.so")}
    if variable == "LD_PRELOAD":
        code = ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", value[variable]]
        subprocess.run(code, input=LOADED % marks, text=True, check=True)
    variables = {variable: value.get(variable, str(around)), "PS4": f"$(touch {marks})"}
    (elsewhere.folder / ".claude/settings.local.json").write_text(json.dumps({"env": variables}))
    assert machine.manage("connect", "claude-code", "--system").returncode == 0
    model.scripts["SHIP"] = [[call("Bash", command="./deploy.sh one")], DONE]
    words = ("-p", "SHIP it", "--session-id", session, "--dangerously-skip-permissions")
    running = start(machine, elsewhere, *words)
    reviewer = Reviewer(machine.product)
    card = reviewer.cards(session, within=90)[0]
    assert elsewhere.ran == []
    assert not marks.exists(), marks.read_text()
    reviewer.answer(card, "deny", comment="Not here")
    running.communicate(timeout=120)
    assert elsewhere.ran == []
    assert not marks.exists(), marks.read_text()


def test_a_connected_folder_on_a_gated_machine_asks_once(machine, own_claude, model, session):
    assert machine.manage("connect", "claude-code", str(own_claude.folder)).returncode == 0
    assert machine.manage("connect", "claude-code", "--system").returncode == 0
    local = own_claude.folder / ".claude/settings.local.json"
    assert not local.exists()
    model.scripts["SHIP"] = [[call("Bash", command="./deploy.sh one")], DONE]
    running = start(machine, own_claude, "-p", "SHIP it", "--session-id", session)
    reviewer = Reviewer(machine.product)
    card = reviewer.cards(session, within=90)[0]
    assert card["workspace"] == "repo"
    reviewer.answer(card, "approve")
    running.communicate(timeout=120)
    assert own_claude.ran == ["one"]
    assert [action["status"] for action in reviewer.actions(session)] == ["succeeded"]
    assert machine.manage("disconnect", "--system").returncode == 0
    assert "command_hook.py" in local.read_text()
    assert machine.manage("disconnect", str(own_claude.folder)).returncode == 0
    assert not local.exists()


@pytest.fixture
def own_claude(elsewhere, product):
    """A folder to connect, in a namespace where an ordinary user runs Claude Code."""
    yield elsewhere
    product.manage("disconnect", str(elsewhere.folder))

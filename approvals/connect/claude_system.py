"""`connect --system`: install a hook for every Claude Code on this machine, in its managed settings.

Only root can write those. Neither --bare nor --settings nor a folder's or user's settings can switch the hook off.
They also empty the variables by which such settings could put a program in its place.
"""

import json
import os
import shutil
import stat
import sys
from pathlib import Path

from approvals.agents.claude_code import settings as claude_settings
from approvals.agents.claude_code.dialect import DIALECT
from approvals.agents.claude_code.settings import MANAGED
from approvals.agents.claude_code.settings import SYSTEM_CONNECTION as CONNECTION
from approvals.agents.claude_code.settings import SYSTEM_FOLDER as FOLDER
from approvals.connect import claude_folder, connections, first_call, hook_watch, versions
from approvals.connect.claude_folder import GATE_TIMEOUT
from approvals.connect.connections import OPERATOR
from dashboard.files.atomic_write import replace_file
from dashboard.models import Agent, Token
from dashboard.people.provisioning import revoke, token_for
from dashboard.people.tokens import sha256
from dashboard.problems import Problem, conflict, invalid
from workspaces.drivers import own_programs

OURS = CONNECTION.parent
PROGRAM = OURS / "hook.py"
PYTHONS = (Path("/usr/bin/python3"), Path(sys.executable).resolve())


def connect(*, team) -> list[str]:
    """Gate every Claude Code on this machine; return notes for the operator. Problem 409, 422, 503."""
    if os.geteuid():
        raise invalid(
            f"{MANAGED} is root's: run the same command as root (sudo), with Handrail's environment variables."
        )
    if CONNECTION.exists():
        raise conflict("This machine is connected already; `disconnect --system` undoes it.")
    note = versions.check(DIALECT)
    before = claude_settings.read(MANAGED)
    python = _root_python()
    agent = Agent.objects.get_or_create(team=team, name="claude-code")[0]
    told = {
        "address": connections.local_address(),
        "token": token_for(team, by="connect --system", agent=agent),
        "patience_s": GATE_TIMEOUT,
        "before": before,
        "made_folder": not FOLDER.exists(),
    }

    def line(role: str) -> str:
        words = [python, "-IS", str(PROGRAM), str(CONNECTION), role]
        return own_programs.shell_line(words, is_gate=role == "gate")

    try:
        for folder in (FOLDER, OURS):
            folder.mkdir(mode=0o755, exist_ok=True)
        # A copy owned by root: users who can write to the checkout must not be able to change the hook.
        replace_file(PROGRAM, claude_settings.PROGRAM.read_bytes(), mode=0o644)
        # Readable by every user, as each one's Claude Code needs it. The token can submit calls but not decide them.
        replace_file(CONNECTION, json.dumps(told, indent=1).encode(), mode=0o644)
        result = first_call.try_out(line, team, FOLDER, DIALECT)
        text = claude_settings.with_hooks(before, claude_settings.entries_of(line), ours=str(CONNECTION))
        claude_settings.write(MANAGED, _with_variables(text), FOLDER.stat())
    except BaseException:
        _undo(told)
        raise
    hook_watch.put_all()
    return [said for said in (note, result) if said]


def disconnect():
    """Remove the hook from the managed settings and revoke its token. Problem 422."""
    try:
        told = json.loads(CONNECTION.read_text())
    except FileNotFoundError:
        raise invalid("This machine is not connected with --system.") from None
    except PermissionError as error:
        raise invalid(f"{CONNECTION} cannot be read: {error.strerror}.") from None
    if os.geteuid():
        raise invalid(
            f"{MANAGED} is root's: run the same command as root (sudo), with Handrail's environment variables."
        )
    _undo(told)
    hook_watch.put_all()


def _with_variables(text: str) -> str:
    """Return the settings with the variables emptied that root has not set otherwise. Problem 422."""
    settings = json.loads(text)
    own = settings.get("env", {})
    if not isinstance(own, dict):
        raise invalid(f"{MANAGED} has an `env` that is no object; mend it first.")
    return json.dumps(settings | {"env": claude_settings.NOTHING_AROUND | own}, indent=2) + "\n"


def _without_variables(before: str | None):
    """Take the emptied variables out of the managed settings again, but for those that were there before."""
    try:
        settings = json.loads(claude_settings.read(MANAGED) or "{}")
    except Problem:
        return
    known = json.loads(before or "{}")
    own, was = settings.get("env"), known.get("env", {})
    if not isinstance(own, dict):
        return
    added = [name for name in claude_settings.NOTHING_AROUND if own.get(name) == "" and name not in was]
    settings["env"] = {name: value for name, value in own.items() if name not in added}
    if not settings["env"] and "env" not in known:
        del settings["env"]
    if added:
        claude_settings.write(MANAGED, json.dumps(settings, indent=2) + "\n", FOLDER.stat())


def _undo(told: dict):
    _without_variables(told["before"])
    claude_folder.take_hook_out(MANAGED, CONNECTION, told)
    revoke(Token.objects.filter(sha256=sha256(told["token"])), by=OPERATOR)
    shutil.rmtree(OURS, ignore_errors=True)
    if told["made_folder"] and FOLDER.is_dir() and not any(FOLDER.iterdir()):
        FOLDER.rmdir()


def _root_python() -> str:
    """Return the path of a Python interpreter that only root can write. Problem 422 if there is none."""
    for path in PYTHONS:
        if path.is_file():
            found = path.stat()
            if found.st_uid == 0 and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return str(path)
    raise invalid("The hook of the whole machine needs a Python that belongs to root, such as /usr/bin/python3.")

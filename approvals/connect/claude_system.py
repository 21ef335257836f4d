"""`connect --system`: install a hook for every Claude Code on this machine, in its managed settings.

Only root can write those. Neither --bare nor --settings nor a folder's or user's settings can switch the hook off.
"""

import json
import os
import shutil
import stat
import sys
from pathlib import Path

from approvals import agents
from approvals.connect import claude_folder, claude_settings, hook_watch, versions
from approvals.connect.claude_folder import GATE_TIMEOUT, OPERATOR
from approvals.connect.claude_settings import MANAGED
from approvals.connect.claude_settings import SYSTEM_CONNECTION as CONNECTION
from approvals.connect.claude_settings import SYSTEM_FOLDER as FOLDER
from dashboard.files.atomic_write import replace_file
from dashboard.models import Agent, Token
from dashboard.people.provisioning import revoke, token_for
from dashboard.problems import conflict, invalid
from dashboard.tokens import sha256

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
    note = versions.check(agents.find("claude-code"))
    before = claude_settings.read(MANAGED)
    python = _root_python()
    agent = Agent.objects.get_or_create(team=team, name="claude-code")[0]
    told = {
        "address": claude_folder.local_address(),
        "token": token_for(team, by="connect --system", agent=agent),
        "patience_s": GATE_TIMEOUT,
        "before": before,
        "made_folder": not FOLDER.exists(),
    }

    def line(role: str) -> str:
        return claude_settings.hook_command(CONNECTION, role, python=python, program=PROGRAM)

    try:
        for folder in (FOLDER, OURS):
            folder.mkdir(mode=0o755, exist_ok=True)
        # A copy owned by root: users who can write to the checkout must not be able to change the hook.
        replace_file(PROGRAM, claude_settings.PROGRAM.read_bytes(), mode=0o644)
        # Readable by every user, as each one's Claude Code needs it. The token can submit calls but not decide them.
        replace_file(CONNECTION, json.dumps(told, indent=1).encode(), mode=0o644)
        result = claude_folder.try_out(line, team, FOLDER)
        added = claude_settings.entries(CONNECTION, python=python, program=PROGRAM)
        text = claude_settings.with_hooks(before, added, ours=str(CONNECTION))
        claude_settings.write(MANAGED, text, FOLDER.stat())
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


def _undo(told: dict):
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

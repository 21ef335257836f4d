"""Claude Code's hook for a whole machine: in its managed settings, which only root can write.

Neither --bare nor --settings nor a folder's or user's settings can switch it off. The managed settings also empty the
variables by which such settings could put a program in its place.
"""

import json
import shutil
import stat
import sys
from pathlib import Path

from approvals.agents.claude_code import settings
from approvals.agents.claude_code.folder_hook import take_out_of
from approvals.agents.claude_code.own_settings import MANAGED, SYSTEM_FOLDER
from approvals.agents.claude_code.settings import SYSTEM_CONNECTION
from approvals.agents.folder_hook import MachineHook
from dashboard.files.atomic_write import replace_file
from dashboard.problems import Problem, invalid
from workspaces.drivers import own_programs

OURS = SYSTEM_CONNECTION.parent
PROGRAM = OURS / "hook.py"
PYTHONS = (Path("/usr/bin/python3"), Path(sys.executable).resolve())


class InManagedSettings(MachineHook):
    """The hook of every Claude Code on this machine."""

    settings_file = MANAGED
    connection = SYSTEM_CONNECTION

    def check(self) -> str | None:
        before = settings.read(MANAGED)
        _root_python()
        return before

    def is_put_in(self) -> bool:
        return settings.is_system_gated()

    def line(self, role: str) -> str:
        words = [_root_python(), "-IS", str(PROGRAM), str(SYSTEM_CONNECTION), role]
        return own_programs.shell_line(words, is_gate=role == "gate")

    def install_program(self, connected: dict):
        for folder in (SYSTEM_FOLDER, OURS):
            folder.mkdir(mode=0o755, exist_ok=True)
        # A copy owned by root: users who can write to the checkout must not be able to change the hook.
        replace_file(PROGRAM, settings.PROGRAM.read_bytes(), mode=0o644)
        # Readable by every user, as each one's Claude Code needs it. The token can submit calls but not decide them.
        replace_file(SYSTEM_CONNECTION, json.dumps(connected, indent=1).encode(), mode=0o644)

    def remove_program(self, connected: dict):
        shutil.rmtree(OURS, ignore_errors=True)
        if connected["made_folder"] and SYSTEM_FOLDER.is_dir() and not any(SYSTEM_FOLDER.iterdir()):
            SYSTEM_FOLDER.rmdir()

    def put_in(self, before: str | None):
        text = settings.with_hooks(before, settings.entries_of(self.line), ours=str(SYSTEM_CONNECTION))
        settings.write(MANAGED, _with_variables(text), SYSTEM_FOLDER.stat())

    def take_out(self, connected: dict):
        _remove_variables(connected["before"])
        take_out_of(MANAGED, SYSTEM_CONNECTION, connected)


def _with_variables(text: str) -> str:
    """Return the settings with the variables emptied that root has not set otherwise. Problem 422."""
    managed = json.loads(text)
    own = managed.get("env", {})
    if not isinstance(own, dict):
        raise invalid(f"{MANAGED} has an `env` that is no object; mend it first.")
    return json.dumps(managed | {"env": settings.NOTHING_AROUND | own}, indent=2) + "\n"


def _remove_variables(before: str | None):
    """Take the emptied variables out of the managed settings again, but for those that were there before."""
    try:
        managed = json.loads(settings.read(MANAGED) or "{}")
    except Problem:
        return
    known = json.loads(before or "{}")
    own, was = managed.get("env"), known.get("env", {})
    if not isinstance(own, dict):
        return
    added = [name for name in settings.NOTHING_AROUND if own.get(name) == "" and name not in was]
    managed["env"] = {name: value for name, value in own.items() if name not in added}
    if not managed["env"] and "env" not in known:
        del managed["env"]
    if added:
        settings.write(MANAGED, json.dumps(managed, indent=2) + "\n", SYSTEM_FOLDER.stat())


def _root_python() -> str:
    """Return the path of a Python interpreter that only root can write. Problem 422 if there is none."""
    for path in PYTHONS:
        if path.is_file():
            found = path.stat()
            if found.st_uid == 0 and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return str(path)
    raise invalid("The hook of the whole machine needs a Python that belongs to root, such as /usr/bin/python3.")


HOOK = InManagedSettings()

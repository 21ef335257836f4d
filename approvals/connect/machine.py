"""`connect --system`: gate an agent for all users of this machine, which only root can do."""

import json
import os
from pathlib import Path

from approvals.agents.dialect import Dialect
from approvals.agents.folder_hook import MachineHook
from approvals.agents.hooks import MACHINE_HOOKS
from approvals.connect import connections, first_call, hook_watch, versions
from approvals.connect.connections import OPERATOR
from dashboard.models import Agent, Token
from dashboard.people.provisioning import revoke, token_for
from dashboard.people.tokens import sha256
from dashboard.problems import conflict, invalid


def connect(dialect: Dialect, *, team) -> list[str]:
    """Gate every session of the agent on this machine; return notes for the operator. Problem 409, 422, 503."""
    hook = MACHINE_HOOKS[dialect.name]
    _check_root(hook)
    if hook.connection.exists():
        raise conflict("This machine is connected already; `disconnect --system` undoes it.")
    note = versions.check(dialect)
    before = hook.check()
    agent = Agent.objects.get_or_create(team=team, name=dialect.name)[0]
    connected = {
        "address": connections.local_address(),
        "token": token_for(team, by="connect --system", agent=agent),
        "patience_s": dialect.hook_patience_s,
        "before": before,
        "made_folder": not hook.settings_file.parent.exists(),
    }
    try:
        hook.install_program(connected)
        result = first_call.try_out(hook.line, team, hook.settings_file.parent, dialect)
        hook.put_in(before)
    except BaseException:
        _undo(hook, connected)
        raise
    hook_watch.put_all()
    return [each for each in (note, result) if each]


def disconnect() -> list[Path]:
    """Remove each hook of this machine and revoke its token; return the settings files that held one. Problem 422."""
    connected = [(hook, found) for hook in MACHINE_HOOKS.values() if (found := _read_connection(hook)) is not None]
    if not connected:
        raise invalid("This machine is not connected with --system.")
    for hook, found in connected:
        _check_root(hook)
        _undo(hook, found)
    hook_watch.put_all()
    return [hook.settings_file for hook, _ in connected]


def _read_connection(hook: MachineHook) -> dict | None:
    try:
        return json.loads(hook.connection.read_text())
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise invalid(f"{hook.connection} cannot be read: {error.strerror}.") from None


def _check_root(hook: MachineHook):
    if os.geteuid():
        raise invalid(
            f"{hook.settings_file} is root's: run the same command as root (sudo), with Handrail's environment "
            "variables."
        )


def _undo(hook: MachineHook, connected: dict):
    hook.take_out(connected)
    revoke(Token.objects.filter(sha256=sha256(connected["token"])), by=OPERATOR)
    hook.remove_program(connected)

"""The hook of a connected folder, whichever agent works there: put in, checked, and taken out."""

import json
import os
import pwd
import shlex
from pathlib import Path

from django.conf import settings

from approvals.agents import dialects
from approvals.agents.dialect import Dialect
from approvals.agents.hooks import FOLDER_HOOKS, is_machine_gated
from approvals.connect import agent_folder, agent_home, connections, imported_rules, ungated_sessions
from approvals.connect.connections import Connected
from dashboard.problems import conflict, invalid
from dashboard.text import own_commands
from workspaces.models import Workspace
from workspaces.services import folders

GONE = "The connection file is missing. Run `disconnect`, then `connect` again."


def connect(dialect: Dialect, path: str, *, team, key: str = "", choose=imported_rules.none_of) -> Connected:
    """Gate the agent in this folder. On any error undo it all. Problem 409, 422, 503."""
    if dialect.settings_file:
        done = agent_home.connect(dialect, path, team=team, key=key)
    else:
        done = agent_folder.connect(dialect, path, team=team, key=key, choose=choose)
    done.notes += filter(None, [_of_another_user(dialect, Path(done.workspace.own_folder))])
    return done


def _of_another_user(dialect: Dialect, folder: Path) -> str:
    """Return a note on a folder whose owner's agent cannot read the connection; "" for one's own."""
    owner = folder.stat().st_uid
    if owner == os.geteuid():
        return ""
    try:
        name = pwd.getpwuid(owner).pw_name
    except KeyError:
        name = f"the user {owner}"
    cannot = (
        f"The folder belongs to {name}, whose {dialect.title} cannot read the hook's connection (a file of your own)"
    )
    if dialect.settings_file:
        return f"{cannot} and has no hook: its sessions have no gate. Connect the folder as {name}."
    return f"{cannot}: its calls are refused there. Connect the folder as {name}, or the machine with --system."


def disconnect(path: str):
    """Undo `connect`; return the workspace, which is in the trash. Problem 422."""
    real = Path(path).expanduser().resolve()
    workspace = folders.find(real)
    if workspace is None:
        raise invalid(f"{real} is not connected.")
    dialect = _dialect_of(_read_connection(workspace))
    if dialect.settings_file:
        agent_home.disconnect(dialect, workspace)
    else:
        agent_folder.disconnect(dialect, workspace, real)
    return workspace


def put_in(workspace):
    """Put the hook where its agent reads it. Problem 409, 422."""
    told = _read_connection(workspace)
    if told is None:
        raise conflict(GONE)
    dialect = _dialect_of(told)
    if dialect.settings_file:
        agent_home.put_hook_in(dialect, agent_home.connection_of(dialect))
    else:
        FOLDER_HOOKS[dialect.name].put_in(Path(workspace.own_folder), connections.connection_of(workspace))


def why_not_gated(workspace) -> str | None:
    """Return why the agent in this folder is not gated: "" when it is, None while `connect` still runs."""
    told = _read_connection(workspace)
    if told is None:
        return GONE
    if not told.get("connected"):
        return None
    folder, dialect = Path(workspace.own_folder), _dialect_of(told)
    if not folder.is_dir():
        return f"The folder {folder} does not exist."
    if dialect.settings_file:
        return agent_home.problem(dialect, agent_home.connection_of(dialect))
    if is_machine_gated(dialect.name):
        return ""
    connection = connections.connection_of(workspace)
    in_settings = FOLDER_HOOKS[dialect.name].problem(folder, connection)
    return in_settings or ungated_sessions.words_on(workspace, dialect)


def connected(dialect: Dialect, path: str = "") -> tuple[Workspace, Path]:
    """Return the agent's connected folder, by default its only one, and its hook's connection file. Problem 422."""
    here = Workspace.objects.kept().connected_folders().filter(runner__host=settings.HANDRAIL_HOST_NAME)
    found = [each for each in here.order_by("key") if (told := _read_connection(each)) and _dialect_of(told) is dialect]
    if path:
        real = str(Path(path).expanduser().resolve())
        found = [each for each in found if each.own_folder == real]
    if len(found) > 1 and not dialect.settings_file:
        named = ", ".join(each.own_folder for each in found)
        raise invalid(f"Several folders are connected; name one of them: {named}.")
    if not found:
        where = shlex.quote(path or "/path/to/your/folder")
        raise invalid(
            f"{dialect.title} is not connected{f' in {path}' if path else ''}. Connect it first: "
            f"{own_commands.manage(f'connect {dialect.name} {where}')}"
        )
    if dialect.settings_file:
        return found[0], agent_home.connection_of(dialect)
    return found[0], connections.connection_of(found[0])


def _read_connection(workspace) -> dict | None:
    """Return what `connect` wrote for the folder, None if it cannot be read."""
    try:
        return json.loads(connections.connection_of(workspace).read_text())
    except (OSError, ValueError):
        return None


def _dialect_of(told: dict | None) -> Dialect:
    return dialects.find((told or {}).get("agent", "")) or dialects.DEFAULT

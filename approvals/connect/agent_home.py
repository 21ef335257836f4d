"""Gate an agent whose hooks are in its user's home: one hook for all of its folders, with one token.

The hook gates every session of that user. The folders that are connected are workspaces: a call belongs to the one
around its folder. What was in the settings file before is kept in the connection file (mode 0600), for the undo.
"""

import json
from contextlib import suppress
from pathlib import Path

from django.conf import settings

from approvals.agents import home_settings, part
from approvals.agents.dialect import Dialect
from approvals.agents.hook_programs import hook_command
from approvals.connect import connections, first_call, git_exclude, versions
from approvals.connect.connections import OPERATOR, Connected
from approvals.evaluation import policies
from dashboard.models import Agent, Token
from dashboard.people.provisioning import revoke, token_for
from dashboard.people.tokens import sha256
from dashboard.problems import Problem, conflict
from workspaces.manifests import folder_manifest
from workspaces.models import Workspace
from workspaces.services import folders


def connect(dialect: Dialect, path: str, *, team, key: str = "") -> Connected:
    """Register the folder, put the hook into the user's home, make a test call. Undo it all on any error."""
    notes = [versions.check(dialect)]
    real = folders.check(path)
    if folders.find(real):
        raise conflict(f"{real} is connected already; `disconnect {real}` undoes it.")
    connection = connection_of(dialect)
    if connection.exists() and json.loads(connection.read_text())["team"] != team.slug:
        raise conflict(f"{dialect.title} of this user is connected to another team already.")
    agent = Agent.objects.get_or_create(team=team, name=dialect.name)[0]
    workspace = folders.register(team, real, agent=agent, by=OPERATOR, key=key)
    try:
        policies.retire(workspace.environment, actor=OPERATOR)
        connections.wait_until_ready(workspace)
        told = {"agent": dialect.name, "path": str(real)} | git_exclude.hide_manifest(real)
        connections.write(connections.connection_of(workspace), told)
        if not connection.exists():
            _write_connection(dialect, connection, team, agent)
        put_hook_in(dialect, connection)
        notes.append(_trusted(dialect, connection, real))
        notes.append(first_call.try_out(lambda role: _test_line(dialect, connection, role), team, real, dialect))
        connections.write(connections.connection_of(workspace), told | {"connected": True})
    except BaseException:
        disconnect(dialect, workspace)
        raise
    notes += [_reach(dialect), *map(str, dialect.limits)]
    return Connected(workspace, [note for note in notes if note])


def _reach(dialect: Dialect) -> str:
    return (
        f"{dialect.title} reads hooks from {Path.home() / dialect.settings_file}, so every session of this user is "
        "gated from now on, in other folders too. Restart sessions that are open."
    )


def disconnect(dialect: Dialect, workspace):
    """Move the workspace to the trash; with the last folder of the agent the hook and its token go too."""
    folder_manifest.take_away(workspace)  # before git sees it
    of_folder = connections.connection_of(workspace)
    if of_folder.exists():
        git_exclude.show_manifest(json.loads(of_folder.read_text()))
        of_folder.unlink()
    connections.trash(workspace)
    connection = connection_of(dialect)
    if not connection.exists() or _other_folders(dialect, workspace):
        return
    told = json.loads(connection.read_text())
    with suppress(Problem):  # no longer the agent's format: overwriting it would lose the user's work
        home_settings.take_out(dialect, Path(told["home"]), ours=str(connection), before=told["before"])
    if trust := part(dialect.name, "trust"):
        trust.forget(Path(told["home"]))
    connection.unlink()
    revoke(Token.objects.filter(sha256=sha256(told["token"])), by=OPERATOR)


def _other_folders(dialect: Dialect, workspace) -> bool:
    kept = Workspace.objects.kept().connected_folders().filter(created_by_agent__name=dialect.name)
    return any(connections.connection_of(other).exists() for other in kept.exclude(pk=workspace.pk))


def connection_of(dialect: Dialect) -> Path:
    """Return the path of the connection file of this user's agent."""
    return settings.HANDRAIL_HOME / "connections" / f"{dialect.name}.json"


def put_hook_in(dialect: Dialect, connection: Path):
    """Merge the hook into the settings file of the agent. Problem 422 when that cannot be read."""
    home = Path(json.loads(connection.read_text())["home"])
    home_settings.put_in(dialect, home, _hooks(dialect, connection), ours=str(connection))


def problem(dialect: Dialect, connection: Path) -> str:
    """Return why a new session of the agent would not be gated; "" if it would be."""
    if not connection.exists():
        return "The connection file is missing. Run `disconnect`, then `connect` again."
    home = Path(json.loads(connection.read_text())["home"])
    return home_settings.problem(dialect, home, _hooks(dialect, connection))


def _hooks(dialect: Dialect, connection: Path):
    return dialect.hooks(lambda role, event="": hook_command(connection, role, dialect.name, event))


def _test_line(dialect: Dialect, connection: Path, role: str) -> str:
    before, after = dialect.names_of_events
    return hook_command(connection, role, dialect.name, before if role == "gate" else after)


def _trusted(dialect: Dialect, connection: Path, folder: Path) -> str:
    """Make the agent trust the hook, if it runs no other one; return a note. Problem 422 if it does not."""
    if not (trust := part(dialect.name, "trust")):
        return ""
    return trust.make_true(Path(json.loads(connection.read_text())["home"]), folder, ours=str(connection))


def _write_connection(dialect: Dialect, connection: Path, team, agent):
    home = Path.home()
    connections.write(
        connection,
        {
            "address": connections.local_address(),
            "token": token_for(team, by="connect", agent=agent),
            "patience_s": dialect.hook_patience_s,
            "team": team.slug,
            "home": str(home),
            "before": home_settings.read(dialect, home),
        },
    )

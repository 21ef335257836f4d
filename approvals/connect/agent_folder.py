"""Gate an agent whose hook goes into a connected folder, without touching what its repository commits.

What was in the agent's settings before is kept in the connection file (mode 0600), so that `disconnect` can restore it.
"""

import json
from functools import partial
from pathlib import Path

from django.conf import settings

from approvals.agents.dialect import Dialect
from approvals.agents.folder_git import git
from approvals.agents.folder_hook import FolderHook
from approvals.agents.hooks import FOLDER_HOOKS
from approvals.connect import connections, first_call, git_exclude, imported_rules, versions
from approvals.connect.connections import OPERATOR, Connected
from approvals.evaluation import policies
from dashboard.files.atomic_write import replace_file
from dashboard.models import Agent
from dashboard.people.provisioning import token_for
from dashboard.problems import conflict
from workspaces import operations
from workspaces.manifests import folder_manifest
from workspaces.services import folders

HOLD_TIMEOUT = 60  # seconds


def connect(dialect: Dialect, path: str, *, team, key: str = "", choose=imported_rules.none_of) -> Connected:
    """Register the folder, install the hook, import allow rules and make a test call. On any error undo it all.

    `choose(rules)` returns which of the repository's own rules are imported.
    """
    hook, notes = FOLDER_HOOKS[dialect.name], [versions.check(dialect)]
    real = folders.check(path)
    if folders.find(real):
        raise conflict(f"{real} is connected already; `disconnect {real}` undoes it.")
    before, rules = hook.check(real), hook.allow_rules(real)
    chosen = choose(rules.committed) if rules.committed else []
    agent = Agent.objects.get_or_create(team=team, name=dialect.name)[0]
    workspace = folders.register(team, real, agent=agent, by=OPERATOR, key=key)
    try:
        # An earlier folder of this name may have left imported rules, which must not apply to this one.
        policies.retire(workspace.environment, actor=OPERATOR)
        connections.wait_until_ready(workspace)
        connection = _write_connection(dialect, workspace, agent, real, before)
        notes.append(hook.put_in(real, connection))
        _note(connection, **git_exclude.hide_manifest(real))
        notes.append(_hide_from_git(hook, real, connection))
        notes += imported_rules.take_over(workspace, rules, chosen, by=OPERATOR)
        line = partial(hook.line, connection, folder=real)
        notes.append(first_call.try_out(line, workspace.team, real, dialect))
        _note(connection, connected=True)
        notes += [_box_calls(hook, workspace, real), _remotes_seen(workspace)]
    except BaseException:
        disconnect(dialect, workspace, real)
        raise
    return Connected(workspace, [note for note in notes if note])


def _box_calls(hook: FolderHook, workspace, folder: Path) -> str:
    """Hold the agent's shell calls where the kernel can and no other hook could change them; return a note on it."""
    if other := hook.other_hook(folder):
        return f"Calls cannot be held in this folder: {other}"
    if not settings.HANDRAIL_HELD:
        return ""
    operation = operations.wait(folders.box_calls(workspace, True, by=OPERATOR), HOLD_TIMEOUT)
    outcome = operation.outcome or {"reason": "The runner isn't responding, so calls are not held."}
    workspace.refresh_from_db()
    if not outcome.get("held"):
        return outcome["reason"]
    return (
        "Shell calls that need no approval run in a box that the kernel holds: they write only this folder and caches, "
        f"read no secrets, and reach the hosts that {workspace.environment.name} allows. "
        f"“Stop holding calls” on the page of {workspace.key} switches it off."
    )


def _remotes_seen(workspace) -> str:
    """Return a note that names the remotes at which reads may run without approval; "" if there are none."""
    if not workspace.remotes:
        return ""
    named = ", ".join(f"{name} ({url})" for name, url in workspace.remotes.items())
    return f"Where calls are held, gh, glab and git fetch read unasked with your credentials at {named}."


def disconnect(dialect: Dialect, workspace, real: Path):
    """Remove the hook and move the workspace to the trash; its snapshots stay until the trash is emptied."""
    hook, connection = FOLDER_HOOKS[dialect.name], connections.connection_of(workspace)
    folder_manifest.take_away(workspace)  # before git sees it
    if connection.exists():
        hook.take_out(real, connection)
        connected = json.loads(connection.read_text())
        if exclude := connected.get("excluded_in"):
            git_exclude.drop_line(Path(exclude), f"/{hook.settings_file}")
        git_exclude.show_manifest(connected)
        connection.unlink()
    connections.trash(workspace)


# The connection, and what git sees of it ------------------------------------------------------------------------------


def _write_connection(dialect: Dialect, workspace, agent, real: Path, before: str | None) -> Path:
    path = connections.connection_of(workspace)
    connected = {
        "agent": dialect.name,
        "address": connections.local_address(),
        "token": token_for(workspace.team, by="connect", agent=agent, workspace=workspace),
        "patience_s": dialect.hook_patience_s,
        "path": str(real),
        "before": before,
        "made_folder": not (real / FOLDER_HOOKS[dialect.name].settings_file.parent).exists(),
    }
    connections.write(path, connected)
    return path


def _note(connection: Path, **more):
    replace_file(connection, json.dumps(json.loads(connection.read_text()) | more, indent=1).encode())


def _hide_from_git(hook: FolderHook, real: Path, connection: Path) -> str:
    """List the settings file in .git/info/exclude unless it is ignored already; return a note if it is committed."""
    exclude = _exclude_file(real)
    if exclude is None or git(real, "check-ignore", "-q", str(hook.settings_file)).returncode == 0:
        return ""
    if git(real, "ls-files", "--error-unmatch", str(hook.settings_file)).returncode == 0:
        return (
            f"{hook.settings_file} is committed in this repository; the hook shows up in `git status` until "
            "`disconnect`."
        )
    exclude.parent.mkdir(exist_ok=True)
    with open(exclude, "a", encoding="utf-8") as file:
        file.write(f"/{hook.settings_file}\n")
    _note(connection, excluded_in=str(exclude))
    return ""


def _exclude_file(real: Path) -> Path | None:
    done = git(real, "rev-parse", "--git-path", "info/exclude")
    top = git(real, "rev-parse", "--show-toplevel")
    if done.returncode or top.returncode or Path(top.stdout.strip()).resolve() != real:
        return None
    return real / done.stdout.strip()

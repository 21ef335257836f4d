"""`connect` and `disconnect`: gate Claude Code in an existing folder, without touching what its repository commits.

The hook is merged into .claude/settings.local.json. What was there before is kept in the connection file (mode 0600),
so that `disconnect` can restore it.
"""

import json
from functools import partial
from pathlib import Path

from django.conf import settings

from approvals.agents.claude_code import folder_line
from approvals.agents.claude_code import own_settings as claude_own_settings
from approvals.agents.claude_code import settings as claude_settings
from approvals.agents.claude_code.dialect import DIALECT
from approvals.agents.claude_code.settings import HOOK_TIMEOUT, LOCAL
from approvals.connect import claude_home, claude_rules, connections, first_call, git_exclude, versions
from approvals.connect.connections import OPERATOR, Connected
from approvals.connect.folder_git import git
from approvals.evaluation import policies
from dashboard.files.atomic_write import replace_file
from dashboard.models import Agent
from dashboard.people.provisioning import token_for
from dashboard.problems import Problem, conflict, invalid
from workspaces import operations
from workspaces.manifests import folder_manifest
from workspaces.services import folders

# Seconds. The gate gives up before Claude Code's own timeout, so that the agent gets a message.
GATE_TIMEOUT = HOOK_TIMEOUT - 120
HOLD_TIMEOUT = 60


def connect(path: str, *, team, key: str = "", choose=claude_rules.none_of) -> Connected:
    """Register the folder, install the hook, import allow rules and make a test call. On any error undo it all.

    `choose(rules)` returns which of the repository's own rules are imported.
    """
    notes = [versions.check(DIALECT)]
    real = folders.check(path)
    if folders.find(real):
        raise conflict(f"{real} is connected already; `disconnect {real}` undoes it.")
    before = claude_settings.read(real / LOCAL)
    if around := claude_own_settings.code_around_hooks(real):
        raise invalid(f"{around} Remove it there, then connect.")
    rules = claude_rules.found_in(real)
    chosen = choose(rules.committed) if rules.committed else []
    agent = Agent.objects.get_or_create(team=team, name=DIALECT.name)[0]
    workspace = folders.register(team, real, agent=agent, by=OPERATOR, key=key)
    try:
        # An earlier folder of this name may have left imported rules, which must not apply to this one.
        policies.retire(workspace.environment, actor=OPERATOR)
        connections.wait_until_ready(workspace)
        connection = _write_connection(workspace, agent, real, before)
        put_hook_in(real, connection)
        notes.append(_in_home(connection, real))
        _note(connection, **git_exclude.hide_manifest(real))
        notes.append(_hide_from_git(real, connection))
        notes += claude_rules.take_over(workspace, rules, chosen, by=OPERATOR)
        line = partial(folder_line.line, connection, folder=real)
        notes.append(first_call.try_out(line, workspace.team, real, DIALECT))
        _note(connection, connected=True)
        notes += [_box_calls(workspace, real), _remotes_seen(workspace)]
    except BaseException:
        _undo(workspace, real)
        raise
    return Connected(workspace, [note for note in notes if note])


def _box_calls(workspace, folder: Path) -> str:
    """Hold the agent's shell calls where the kernel can and no other hook could change them; return a note on it."""
    if other := claude_own_settings.other_hook(folder):
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
        f"*Stop holding calls* on the page of {workspace.key} switches it off."
    )


def _remotes_seen(workspace) -> str:
    """Return a note that names the remotes at which reads may run without approval; "" if there are none."""
    if not workspace.remotes:
        return ""
    named = ", ".join(f"{name} ({url})" for name, url in workspace.remotes.items())
    return f"Where calls are held, gh, glab and git fetch read unasked with your credentials at {named}."


def disconnect(workspace, real: Path):
    """Remove the hook and move the workspace to the trash; its snapshots stay until the trash is emptied."""
    _undo(workspace, real)


# The connection and the hook -----------------------------------------------------------------------------------------


def _write_connection(workspace, agent, real, before) -> Path:
    path = connections.connection_of(workspace)
    told = {
        "address": connections.local_address(),
        "token": token_for(workspace.team, by="connect", agent=agent, workspace=workspace),
        "patience_s": GATE_TIMEOUT,
        "path": str(real),
        "before": before,
        "made_folder": not (real / LOCAL.parent).exists(),
    }
    connections.write(path, told)
    return path


def _note(connection: Path, **more):
    replace_file(connection, json.dumps(json.loads(connection.read_text()) | more, indent=1).encode())


def put_hook_in(real: Path, connection: Path):
    """Merge the hook into the folder's settings file. Problem 422 when that cannot be read.

    On a machine gated by `connect --system` the hook is removed instead: it would ask a second time.
    """
    file = real / LOCAL
    if claude_settings.is_system_gated():
        take_hook_out(file, connection, json.loads(connection.read_text()))
        return
    text = claude_settings.with_hooks(
        claude_settings.read(file), claude_settings.entries(connection, real), ours=str(connection)
    )
    try:
        claude_settings.write(file, text, real.stat())
    except OSError as error:
        raise invalid(f"{file} cannot be written ({error.strerror}), so the hook cannot be put there.") from None


def _in_home(connection: Path, real: Path) -> str:
    """Gate sessions below the folder that read other settings; return a note on it."""
    if claude_settings.is_system_gated():
        return ""
    refused = claude_home.put_in(connection, real)
    return refused or (
        f"Sessions that start anywhere below {real} are gated, in nested repositories too: the hook is in "
        f"{Path.home() / claude_home.FILE.settings_file} as well. In other folders it lets every call pass."
    )


def take_hook_out(file: Path, connection: Path, told: dict):
    """Remove the hook from the settings file: byte for byte as before if nothing else in it changed."""
    owner = file.parent.parent.stat()
    if not file.is_file() or file.is_symlink():
        return
    before = told["before"]
    try:
        if (text := claude_settings.read(file)) == before:
            return
        left = claude_settings.without_hooks(text, ours=str(connection))
    except Problem:
        return  # no longer valid JSON: Claude Code runs no hook of it, and overwriting it would lose the user's work
    left |= {name: value for name, value in json.loads(before or "{}").items() if name == claude_settings.SWITCHED_OFF}
    if before is not None and json.loads(before) == left:
        claude_settings.write(file, before, owner)
    elif left or before is not None:
        claude_settings.write(file, json.dumps(left, indent=2) + "\n", owner)
    else:
        file.unlink()
        if told["made_folder"] and not any(file.parent.iterdir()):
            file.parent.rmdir()


def _hide_from_git(real, connection: Path) -> str:
    """List the settings file in .git/info/exclude unless it is ignored already; return a note if it is committed."""
    exclude = _exclude_file(real)
    if exclude is None or git(real, "check-ignore", "-q", str(LOCAL)).returncode == 0:
        return ""
    if git(real, "ls-files", "--error-unmatch", str(LOCAL)).returncode == 0:
        return f"{LOCAL} is committed in this repository; the hook shows up in `git status` until `disconnect`."
    exclude.parent.mkdir(exist_ok=True)
    with open(exclude, "a", encoding="utf-8") as file:
        file.write(f"/{LOCAL}\n")
    _note(connection, excluded_in=str(exclude))
    return ""


def _exclude_file(real) -> Path | None:
    done = git(real, "rev-parse", "--git-path", "info/exclude")
    top = git(real, "rev-parse", "--show-toplevel")
    if done.returncode or top.returncode or Path(top.stdout.strip()).resolve() != real:
        return None
    return real / done.stdout.strip()


# Undo ----------------------------------------------------------------------------------------------------------------


def _undo(workspace, real):
    folder_manifest.take_away(workspace)  # before git sees it
    connection = connections.connection_of(workspace)
    if connection.exists():
        told = json.loads(connection.read_text())
        take_hook_out(real / LOCAL, connection, told)
        claude_home.take_out(connection)
        if exclude := told.get("excluded_in"):
            git_exclude.drop_line(Path(exclude), f"/{LOCAL}")
        git_exclude.show_manifest(told)
        connection.unlink()
    connections.trash(workspace)

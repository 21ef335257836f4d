"""Connected folders: a user's existing folder as a workspace, with snapshots and restores but without isolation.

Its path is the workspace's source; Handrail owns no file in it.
"""

import os
import re
from pathlib import Path

from django.conf import settings

from dashboard.database import clock
from dashboard.models import Actor
from dashboard.problems import conflict, invalid
from workspaces import lifecycle, operations
from workspaces.drivers import capabilities
from workspaces.models import Environment, Runner, State, Workspace
from workspaces.operations.needs_approval import HOOK_FILES  # noqa: F401 - known by this name to what reads a folder
from workspaces.services import git_remotes

DRIVER = capabilities.drivers_with(own_folder=True)[0]


def check(path: str) -> Path:
    """Return the resolved folder. Problem 422 unless it is readable and writable and apart from Handrail's own data."""
    try:
        real = Path(path).expanduser().resolve(strict=True)
    except OSError as error:
        raise invalid(f"There is no folder {path}: {error.strerror}.") from None
    if not real.is_dir():
        raise invalid(f"{real} is not a folder.")
    if not os.access(real, os.R_OK | os.W_OK | os.X_OK):
        raise invalid(f"{real} cannot be read and written by the user that runs Handrail.")
    if real == Path(real.anchor) or _overlap(real, settings.HANDRAIL_HOME.resolve()):
        raise invalid(f"{real} contains Handrail's own data ({settings.HANDRAIL_HOME}) or is inside it.")
    return real


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def find(path: Path) -> Workspace | None:
    """Return the workspace of exactly this folder, or None."""
    folders = Workspace.objects.kept().connected_folders().select_related("environment", "team")
    return next((workspace for workspace in folders if workspace.own_folder == str(path)), None)


def register(team, path: Path, *, agent, by: Actor, key: str = "") -> Workspace:
    """Create a workspace of the folder for the agent. Problem 409 if it overlaps with another connected folder."""
    # Of all teams, since folders of two must not overlap either.
    with type(team).objects.turn(*type(team).objects.values_list("pk", flat=True)):
        for other in Workspace.objects.kept().connected_folders():
            if _overlap(path, Path(other.own_folder)):
                raise conflict(f"{other.own_folder} is already connected, as {other.key}.")
        key = key or _free_key(team, path)
        environment = Environment.objects.create(
            team=team, name=f"folder-{key}", version=_next_version(team, key), driver=DRIVER, minimum_isolation="none"
        )
        workspace = Workspace.objects.create(
            team=team,
            key=key,
            environment=environment,
            runner=Runner.objects.filter(host=settings.HANDRAIL_HOST_NAME).first(),
            source={"path": str(path)},
            remotes=git_remotes.configured(path),
            created_by_agent=agent,
            owner=agent.owner if agent else None,
            last_active_at=clock.now(),
        )
        lifecycle.record(workspace, by, "workspace.connected", {"key": key, "path": str(path)})
        operations.submit("create", workspace=workspace, by=by, exclusive=True)
    return workspace


def box_calls(workspace, on: bool, *, by: Actor):
    """Submit an operation that starts the folder's Run in a box that holds calls, or without one. Problem 409."""
    if not workspace.environment.capabilities.own_folder or workspace.trashed_at:
        raise conflict(f"{workspace.key} is not a connected folder.")
    lifecycle.must_be(workspace, State.READY, what="held")
    if on:
        see_remotes(workspace)
    return operations.submit("hold", workspace=workspace, by=by, args={"on": on}, exclusive=True)


def see_remotes(workspace):
    """Keep the remotes of the folder's repository as they are now: those that a person is shown and confirms."""
    workspace.remotes = git_remotes.configured(Path(workspace.own_folder))
    workspace.save(update_fields=["remotes"])


def _next_version(team, key) -> int:
    latest = Environment.objects.filter(team=team, name=f"folder-{key}").order_by("-version").first()
    return latest.version + 1 if latest else 1


def _free_key(team, path: Path) -> str:
    base = re.sub(r"[^a-z0-9._-]+", "-", path.name.lower()).strip("-._")[:56] or "folder"
    taken = set(Workspace.objects.kept().filter(team=team, key__startswith=base).values_list("key", flat=True))
    names = (base, *(f"{base}-{number}" for number in range(2, 1000)))
    return next(name for name in names if name not in taken)

"""Roll back one action: restore the files that it changed, and no others.

Its files are those that differ between the snapshot before it and the next one, or now if there is none. The files in
`.git` stay as they are, so no commit is lost; the plan lists what was committed since.
"""

import hashlib
from dataclasses import dataclass, field

from approvals.models import Action
from dashboard.models import Actor
from dashboard.problems import conflict
from workspaces import history, lifecycle
from workspaces.models import Operation, Snapshot
from workspaces.services.folders import HOOK_FILES
from workspaces.store.objects import FOLDER


@dataclass(frozen=True)
class Plan:
    """`paths` are restored from snapshot `number`; those in `later` were changed again after the action.

    `commits` are (short id, subject) of commits made since, which stay; `git_note` says why they are unknown.
    """

    number: int
    paths: list[bytes]
    later: set[bytes]
    commits: list[tuple[str, str]] = field(default_factory=list)
    git_note: str = ""

    @property
    def seen(self) -> str:
        """A hash of the plan that a person saw, so that no other files are restored."""
        return hashlib.sha256(b"\0".join([str(self.number).encode(), *self.paths])).hexdigest()


def plan(action: Action) -> Plan:
    """Return the plan for rolling the action back now. Problem 409 if it has no snapshot, 503 without the runner."""
    before, workspace = action.snapshot_before, action.workspace
    if before is None:
        raise conflict("There is no snapshot before this action.")
    following = Snapshot.objects.filter(workspace=workspace, number__gt=before.number).order_by("number").first()
    until = following.number if following else history.LIVE
    paths = _files(workspace, before.number, until)
    later = set(_files(workspace, until, history.LIVE)) & set(paths) if paths and following else set()
    commits, note = history.commits_since(workspace, before)
    return Plan(before.number, paths, later, commits, note)


def _files(workspace, from_, to) -> list[bytes]:
    found = set()
    for change in history.changes(workspace, from_, to, count=False):
        if (change.change.new or change.change.old).kind != FOLDER and not change.is_gits_own:
            found |= {change.path} | ({change.old_path} if change.old_path is not None else set())
    return sorted(found - set(HOOK_FILES))


def roll_back(action: Action, seen: str, *, by: Actor) -> Operation:
    """Restore the files of the plan with the hash `seen`. Problem 409 if the plan has changed or has no files."""
    found = plan(action)
    if found.seen != seen:
        raise conflict("The files to roll back have changed since you loaded this page. Nothing was restored.")
    if not found.paths:
        raise conflict("This action changed no files.")
    return lifecycle.restore(action.workspace, found.number, by=by, paths=found.paths)

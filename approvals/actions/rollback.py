"""Roll back one action: restore the files that it changed, and no others.

Its files are those that differ between the snapshot before it and the next one, or now if there is none. The files in
`.git` stay as they are, so no commit is lost, unless the person wants them back too; the plan lists what was committed
since.
"""

import hashlib
from dataclasses import dataclass, field

from approvals.models import Action
from dashboard.models import Actor
from dashboard.problems import conflict
from workspaces import lifecycle
from workspaces.changes import history
from workspaces.changes.history import FileChange
from workspaces.models import Operation, Snapshot
from workspaces.services.folders import HOOK_FILES
from workspaces.store.diff import MODE, RENAMED
from workspaces.store.objects import FOLDER
from workspaces.store.text import inside_git

HOOKS = frozenset(HOOK_FILES)


@dataclass(frozen=True)
class Plan:
    """`paths` are restored from snapshot `number`; those in `later` were changed again after the action.

    Those in `gone` are deleted, since they are not in the snapshot.
    `gits_own` are changed paths inside a `.git`, which are restored only if the person asks for it. `stays` is what a
    roll back leaves as it is: the files of Handrail's hook, and folders of which only attributes changed. `commits` are
    (short id, subject) of commits made since, which stay with git's own files; `git_note` says why they are unknown.
    """

    number: int
    paths: list[bytes]
    later: set[bytes]
    gone: set[bytes] = field(default_factory=set)
    gits_own: list[bytes] = field(default_factory=list)
    stays: list[bytes] = field(default_factory=list)
    commits: list[tuple[str, str]] = field(default_factory=list)
    git_note: str = ""

    @property
    def seen(self) -> str:
        """A hash of the plan that a person saw, so that no other files are restored."""
        told = [str(self.number).encode(), *self.paths, b"", *self.gits_own]
        return hashlib.sha256(b"\0".join(told)).hexdigest()


def plan(action: Action) -> Plan:
    """Return the plan for rolling the action back now. Problem 409 if it has no snapshot, 503 without the runner."""
    before, workspace = action.snapshot_before, action.workspace
    if before is None:
        raise conflict("There is no snapshot before this action.")
    following = Snapshot.objects.filter(workspace=workspace, number__gt=before.number).order_by("number").first()
    until = following.number if following else history.LIVE
    changed = _changed(workspace, before.number, until)
    since = _changed(workspace, until, history.LIVE) if changed and following else {}
    # A folder is restored with all that is in it, so one that is still there stays; one that came or went does not.
    stays = {path for path, row in changed.items() if row.kind == MODE and row.change.new.kind == FOLDER}
    stays |= HOOKS & changed.keys()
    folders = [path + b"/" for path, row in changed.items() if path not in stays and _is_folder(row)]
    inside = {path for path in since if path.startswith(tuple(folders))}
    restored = sorted((changed.keys() | inside) - stays - HOOKS)
    return Plan(
        before.number,
        [path for path in restored if not inside_git(path)],
        later=set(restored) & since.keys(),
        gone={path for path in restored if path not in changed or not _was_there(path, changed[path])},
        gits_own=[path for path in restored if inside_git(path)],
        stays=sorted(stays),
        **dict(zip(("commits", "git_note"), history.commits_since(workspace, before), strict=True)),
    )


def _changed(workspace, from_, to) -> dict[bytes, FileChange]:
    """Return the change of each path that differs between two points; of a renamed file at both its names."""
    rows = history.changes(workspace, from_, to, count=False)
    return {name: row for row in rows for name in (row.path, row.old_path) if name is not None}


def _was_there(path: bytes, row: FileChange) -> bool:
    return row.change.old is not None and (row.kind != RENAMED or path == row.old_path)


def _is_folder(row: FileChange) -> bool:
    return any(side is not None and side.kind == FOLDER for side in (row.change.old, row.change.new))


def roll_back(action: Action, seen: str, *, by: Actor, with_git: bool = False) -> Operation:
    """Restore the files of the plan with the hash `seen`, and with `with_git` those inside a `.git` as well.

    Problem 409 if the plan has changed or has nothing to restore.
    """
    found = plan(action)
    if found.seen != seen:
        raise conflict("The files to roll back have changed since you loaded this page. Nothing was restored.")
    paths = found.paths + (found.gits_own if with_git else [])
    if not paths:
        raise conflict(
            "This action changed only git's own files. Choose to bring those back too."
            if found.gits_own
            else "Nothing that this action changed is rolled back by itself. Restore the whole workspace instead."
            if found.stays
            else "This action changed no files."
        )
    return lifecycle.restore(action.workspace, found.number, by=by, paths=paths)

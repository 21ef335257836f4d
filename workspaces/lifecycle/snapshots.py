"""Take, pin and restore snapshots."""

import base64
from contextlib import suppress

from dashboard.models import Actor, Team
from dashboard.problems import Problem, conflict, invalid, unavailable
from workspaces import extensions, operations
from workspaces.changes.file_writes import changes_guarded
from workspaces.changes.history import LIVE, find_snapshot, listing, store_of
from workspaces.host.paths import inside
from workspaces.lifecycle.activity import touch
from workspaces.lifecycle.states import must_be, must_not_be_trashed, record
from workspaces.models import Operation, Snapshot, State
from workspaces.operations import needs_approval
from workspaces.secrets.masking import masked
from workspaces.store import StoreError
from workspaces.store.objects import FOLDER
from workspaces.store.safe_open import BadPath, split_path

SAFETY_SNAPSHOT_TIMEOUT = 60.0  # seconds


def snapshot(workspace, *, by: Actor, kind: str = "manual", label: str = "") -> Operation:
    """Take a snapshot; the outcome is {"ok": True, "snapshot": number}."""
    must_be(workspace, State.READY, State.PAUSED, State.STOPPED, what="snapshotted")
    if len(label) > 120:
        raise invalid("A label can have at most 120 characters.")
    touch(workspace)
    return operations.submit(
        "snapshot",
        workspace=workspace,
        by=by,
        args={"kind": kind, "label": masked(label, workspace)[:120]},
        exclusive=True,
    )


def take_safety_snapshot(workspace, *, by: Actor, label: str):
    """Take a safety snapshot and wait for it; Problem 503 when it cannot be taken."""
    operation = operations.wait(snapshot(workspace, by=by, kind="safety", label=label), SAFETY_SNAPSHOT_TIMEOUT)
    if not operations.is_over(operation) or not operation.outcome["ok"]:
        raise unavailable("The current files could not be saved first, so nothing was changed.")


def pin(snapshot: Snapshot, pinned: bool, *, by: Actor):
    """Pin or unpin a snapshot; retention never deletes a pinned one."""
    if not pinned:
        needs_approval.require(snapshot.workspace, "unpin", {"snapshot": snapshot.number}, by=by)
    with Team.objects.turn(snapshot.workspace.team_id):
        if Snapshot.objects.filter(pk=snapshot.pk, pinned=not pinned).update(pinned=pinned):
            verb = "snapshot.pinned" if pinned else "snapshot.unpinned"
            record(snapshot.workspace, by, verb, {"number": snapshot.number}, subject=snapshot)
    snapshot.pinned = pinned


def restore(
    workspace,
    number: int,
    *,
    by: Actor,
    paths: list[str | bytes] | None = None,
    follow: dict | None = None,
    then_resume: bool = False,
) -> Operation:
    """Restore the tree, or some paths of it, after a safety snapshot of the current files.

    `follow`: columns of the workspace to restore with it, such as the environment version; `then_resume`: resume it
    once the files are in place. The operation's progress
    names `safety_snapshot` as soon as it is taken; the outcome holds {"ok", "safety_snapshot", "snapshot", "changed",
    "created", "removed", "entries", "differ"}.
    """
    must_be(workspace, State.READY, State.PAUSED, State.STOPPED, what="restored")
    target = find_snapshot(workspace, number)
    must_not_be_trashed(target)
    names = [_tidy(path if isinstance(path, bytes) else inside(path)) for path in paths or ()]
    for name in names:
        needs_approval.check_file(name, by=by)
    _refuse_unknown(workspace, target, names)
    if not names and by.type != "agent":
        _refuse_to_take_work(workspace, target)
    wish = {"snapshot": target.number} | ({"paths": paths} if paths else {})
    asks = needs_approval.asks_nobody(workspace, by) and changes_guarded(workspace, target.tree_hex, names)
    needs_approval.require(workspace, "restore", wish, by=by, always=asks)
    touch(workspace)
    # JSON cannot hold a name that is not UTF-8.
    encoded = [base64.b64encode(name).decode() for name in names] or None
    args = {"number": target.number, "paths_b64": encoded} | ({"follow": follow} if follow else {})
    args |= {"then_resume": True} if then_resume else {}
    return operations.submit("restore", workspace=workspace, by=by, args=args, exclusive=True)


def _tidy(path: bytes) -> bytes:
    try:
        parts = split_path(path)
    except BadPath:
        raise invalid("That path isn't inside the workspace.") from None
    if not parts:
        raise invalid("Name files or folders; without `paths` everything is restored.")
    return b"/".join(parts)


def _refuse_unknown(workspace, target: Snapshot, names: list[bytes]):
    """Problem 404 for a path that is neither in the snapshot nor among the files of now, as far as these can be read.

    What cannot be read now, the operation itself will say.
    """
    trees = [target.tree_hex] + ([workspace.head.tree_hex] if workspace.head else [])
    with suppress(_Unreadable):
        stored, now = {}, {}
        for name in names:
            is_in_a_tree = any(_is_in(workspace, tree, name, stored) for tree in trees)
            if not is_in_a_tree and not _is_there_now(workspace, name, now):
                shown = name.decode("utf-8", "backslashreplace")
                raise Problem(404, f"{shown} is neither in snapshot {target.number} nor in the workspace.")


class _Unreadable(Exception):
    """The store or the runner cannot be asked now."""


def _is_in(workspace, tree: str, name: bytes, known: dict[tuple, set[bytes]]) -> bool:
    """Return whether a stored tree has the path; `known` keeps the names in its folders."""
    folder, _, last = name.rpartition(b"/")
    if (tree, folder) not in known:
        known[tree, folder] = set(_names_in(workspace, tree, folder))
    return last in known[tree, folder]


def _names_in(workspace, tree: str, folder: bytes) -> list[bytes]:
    try:
        store = store_of(workspace)
    except Problem:
        raise _Unreadable from None
    try:
        is_folder = store.entry(tree, folder).kind == FOLDER
        return [entry.name for entry in store.ls(tree, folder)] if is_folder else []
    except StoreError:
        return []


def _is_there_now(workspace, name: bytes, known: dict[bytes, set[bytes]]) -> bool:
    """Return whether the live tree has the path; `known` keeps the names in its folders."""
    folder, _, last = name.rpartition(b"/")
    if folder not in known:
        try:
            known[folder] = {item.name for item in listing(workspace, LIVE, folder) or ()}
        except Problem as problem:
            if problem.status >= 500:
                raise _Unreadable from None
            known[folder] = set()
    return last in known[folder]


def _refuse_to_take_work(workspace, target: Snapshot):
    """Raise Problem 409 if a started agent works here now, and all that it has done would go."""
    began = extensions.ports.work_began_at(workspace)
    if began is not None and target.number <= began:
        raise conflict(
            f"An agent works in {workspace.key}, and snapshot {target.number} is from before it began. Wait until it "
            "has ended, or stop it."
        )


def reset(workspace, *, by: Actor) -> Operation:
    """Restore the snapshot taken after setup; can be undone like any restore."""
    if workspace.baseline is None:
        raise conflict(f"{workspace.key} has no snapshot after setup to restore.")
    needs_approval.require(workspace, "reset", {}, by=by)
    return restore(workspace, workspace.baseline.number, by=by)

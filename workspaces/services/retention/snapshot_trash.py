"""The trash of snapshots: how one gets there by a person's request, and back."""

from datetime import datetime, timedelta

from django.db import transaction

from dashboard.database import clock
from dashboard.models import Actor, Team
from dashboard.problems import conflict
from workspaces import lifecycle
from workspaces.models import Snapshot, Workspace
from workspaces.services.retention import holds
from workspaces.services.retention.layers import TRASH
from workspaces.services.retention.rules import Rules


def trash_date(workspace: Workspace) -> datetime:
    """Return until when something of the workspace that goes to the trash now can be restored."""
    terms = Rules.of(workspace.team_id).in_force(TRASH, workspace.environment.name).terms
    return clock.now() + timedelta(days=terms.days)


def trash(snapshot: Snapshot, *, by: Actor):
    """Move a snapshot to the trash. Problem 409 if it is held, pinned, or the first or current one."""
    workspace = snapshot.workspace
    with transaction.atomic():
        holds.lock(workspace.team_id)
        workspace.refresh_from_db(fields=["head", "baseline"])
        snapshot.refresh_from_db()
        _refuse_if_kept(snapshot, workspace)
        now = clock.now()
        Snapshot.objects.filter(pk=snapshot.pk).update(trashed_at=now, drop_at=trash_date(workspace))
        lifecycle.record(workspace, by, "snapshot.trashed", {"number": snapshot.number}, subject=snapshot)
    snapshot.refresh_from_db()


def _refuse_if_kept(snapshot: Snapshot, workspace: Workspace):
    if snapshot.trashed_at:
        raise conflict(f"Snapshot {snapshot.number} is already in the trash.")
    if snapshot.pk in (workspace.head_id, workspace.baseline_id):
        which = "current" if snapshot.pk == workspace.head_id else "first"
        raise conflict(f"Snapshot {snapshot.number} is the {which} one of {workspace.key}, which always stays.")
    if snapshot.pinned:
        raise conflict(f"Snapshot {snapshot.number} is pinned. Unpin it first.")
    if held := hold_on(snapshot):
        raise conflict(f"Snapshot {snapshot.number} is on hold: {held.reason}")


def hold_on(snapshot: Snapshot):
    """Return the hold that keeps the snapshot from being deleted, or None."""
    for row in holds.on_workspace(snapshot.workspace):
        if row.snapshot_id in (None, snapshot.pk):
            return row
    return None


def untrash(snapshot: Snapshot, *, by: Actor):
    """Restore a snapshot from the trash. It is pinned, so that no rule deletes what a person wanted back."""
    with Team.objects.turn(snapshot.workspace.team_id):
        rows = Snapshot.objects.in_trash().filter(pk=snapshot.pk)
        if not rows.update(trashed_at=None, drop_at=None, pinned=True):
            raise conflict(f"Snapshot {snapshot.number} is not in the trash.")
        lifecycle.record(snapshot.workspace, by, "snapshot.untrashed", {"number": snapshot.number}, subject=snapshot)
    snapshot.refresh_from_db()


def in_trash(workspace: Workspace):
    """Return the workspace's snapshots in the trash, the next one to go first."""
    return workspace.snapshots.in_trash().order_by("drop_at", "number")

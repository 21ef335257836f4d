"""Holds: what they cover, and how people set and release them."""

from datetime import datetime

from django.db import transaction

from dashboard.database import clock
from dashboard.models import Actor, Event, Team
from dashboard.problems import conflict, invalid
from workspaces.models import Hold, Snapshot


class Held:
    """What the active holds of a team cover at one moment."""

    def __init__(self, team, at: datetime):
        rows = list(Hold.objects.active(at).filter(team=team).select_related("team", "workspace", "snapshot"))
        self.of_team = next((row for row in rows if row.workspace_id is None), None)
        self.workspaces = {row.workspace_id: row for row in rows if row.workspace_id and not row.snapshot_id}
        self.snapshots = {row.snapshot_id: row for row in rows if row.snapshot_id}
        # A workspace that holds such a snapshot cannot be deleted as a whole, but other things of it can.
        self.with_snapshot = {row.workspace_id: row for row in rows if row.snapshot_id}

    def on(self, item) -> Hold | None:
        """Return the hold that keeps an item of a layer from being deleted, or None."""
        return self.of_team or self.workspaces.get(item.workspace_id) or self.snapshots.get(item.snapshot_id)

    def on_workspace(self, workspace_id) -> Hold | None:
        """Return the hold that keeps a whole workspace from being deleted, or None."""
        return self.of_team or self.workspaces.get(workspace_id) or self.with_snapshot.get(workspace_id)


def lock(team):
    """Lock the team's row, so that no hold comes between a look at the holds and the deletion after it."""
    Team.objects.take_turn(getattr(team, "pk", team))


def hold(
    team, *, reason: str, by: Actor, until: datetime | None = None, workspace=None, snapshot: Snapshot | None = None
) -> Hold:
    """Hold a snapshot, a workspace or the whole team. Problem 422 without a reason or with an end in the past."""
    reason, now = reason.strip(), clock.now()
    if not reason or len(reason) > 500:
        raise invalid("Give a reason of at most 500 characters.")
    if until is not None and until <= now:
        raise invalid("The end must be in the future.")
    workspace = snapshot.workspace if snapshot else workspace
    with transaction.atomic():
        lock(team)
        if workspace is not None and type(workspace).objects.filter(pk=workspace.pk, purged_at__isnull=False).exists():
            raise conflict(f"{workspace.key} was deleted for good.")
        if snapshot is not None and not Snapshot.objects.filter(pk=snapshot.pk).exists():
            raise conflict("The snapshot was deleted.")
        row = Hold.objects.create(
            team=team, workspace=workspace, snapshot=snapshot, reason=reason, until=until, by=by.as_json, created_at=now
        )
        data = {"what": row.what, "why": reason, "until": until.isoformat() if until else None}
        Event.objects.record(team, actor=by, verb="hold.set", subject=row, workspace=workspace, data=data)
    return row


def release(row: Hold, *, by: Actor):
    """Release a hold. Problem 409 if it was released."""
    with transaction.atomic():
        lock(row.team_id)
        if not Hold.objects.filter(pk=row.pk, released_at=None).update(released_at=clock.now(), released_by=by.as_json):
            raise conflict("This hold was already released.")
        data = {"what": row.what, "why": row.reason}
        Event.objects.record(
            row.team_id, actor=by, verb="hold.released", subject=row, workspace=row.workspace_id, data=data
        )


def on_workspace(workspace) -> list[Hold]:
    """Return the active holds that keep this workspace or one of its snapshots, the newest first."""
    return list(Hold.objects.keeping(workspace))


def on_whole_workspace(workspace) -> Hold | None:
    """Return a hold that keeps the workspace from being deleted for good: its own, its team's, or a snapshot's."""
    return Hold.objects.keeping(workspace).first()

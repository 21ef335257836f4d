"""Move workspaces to the trash, and restore them from it."""

from datetime import timedelta

from django.conf import settings
from django.db import transaction

from dashboard import clock
from dashboard.models import Actor
from dashboard.problems import conflict, not_allowed
from workspaces import needs_approval
from workspaces.lifecycle.states import record, submit_exclusive
from workspaces.models import FOLDER, Operation, State, Workspace


def trash(workspace, *, by: Actor) -> Operation:
    """Move it to the trash after a snapshot of everything; the files are deleted at `purge_at`."""
    if workspace.trashed_at:
        raise conflict(f"{workspace.key} is already in the trash.", in_trash_until=workspace.purge_at.isoformat())
    needs_approval.require(workspace, "delete", {}, by=by, always=True)
    return submit_exclusive(workspace, "trash", by=by)


def untrash(workspace, *, by: Actor) -> Workspace:
    """Restore it from the trash, stopped or failed. Problem 409 if the key is in use again."""
    if by.type == "agent" and workspace.environment.driver == FOLDER:
        raise not_allowed("Only a person can restore a connected folder.")
    with transaction.atomic():
        type(workspace.team).objects.select_for_update().get(pk=workspace.team_id)
        if Workspace.objects.kept().filter(team=workspace.team_id, key=workspace.key).exists():
            raise conflict(f"Another workspace has the key {workspace.key} now.")
        state = workspace.state if workspace.state == State.FAILED else State.STOPPED
        if not Workspace.objects.in_trash().filter(pk=workspace.pk).update(trashed_at=None, purge_at=None, state=state):
            raise conflict(f"{workspace.key} is not in the trash.")
        record(workspace, by, "workspace.untrashed")
    workspace.refresh_from_db()
    return workspace


def purge_date():
    return clock.now() + timedelta(days=settings.HANDRAIL_TRASH_DAYS)

"""Move workspaces to the trash, and restore them from it."""

from dashboard.models import Actor
from dashboard.problems import conflict, not_allowed
from workspaces.lifecycle.states import record, submit_exclusive
from workspaces.models import Hold, Operation, State, Workspace
from workspaces.operations import absent, needs_approval
from workspaces.provisioning import caps


def trash(workspace, *, by: Actor) -> Operation:
    """Move it to the trash after a snapshot of everything; the files are deleted at `purge_at`.

    Problem 409 if it is there already or on hold.
    """
    if workspace.trashed_at:
        raise absent.refusal_of(workspace)
    if held := Hold.objects.keeping(workspace).first():
        raise conflict(f"{workspace.key} is on hold: {held.reason}")
    needs_approval.require(workspace, "delete", {}, by=by, always=True)
    return submit_exclusive(workspace, "trash", by=by)


def untrash(workspace, *, by: Actor) -> Workspace:
    """Restore it from the trash, stopped, archived or failed. Problem 409 if the key is in use again."""
    if by.type == "agent" and workspace.environment.capabilities.own_folder:
        raise not_allowed("Only a person can restore a connected folder.")
    with type(workspace.team).objects.turn(workspace.team_id):
        if Workspace.objects.kept().filter(team=workspace.team_id, key=workspace.key).exists():
            raise conflict(f"Another workspace has the key {workspace.key} now.")
        if workspace.state != State.ARCHIVED:
            caps.refuse_when_met(workspace.team_id, workspace.environment.driver, starts=False, adds=True)
        state = workspace.state if workspace.state in (State.FAILED, State.ARCHIVED) else State.STOPPED
        if not Workspace.objects.in_trash().filter(pk=workspace.pk).update(trashed_at=None, purge_at=None, state=state):
            raise conflict(f"{workspace.key} is not in the trash.")
        record(workspace, by, "workspace.untrashed")
    workspace.refresh_from_db()
    return workspace

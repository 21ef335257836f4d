"""Verify a workspace's files against its newest snapshot, and accept files that differ."""

from dashboard.models import Actor
from dashboard.problems import conflict
from workspaces import lifecycle
from workspaces.models import Operation, State
from workspaces.operations import needs_approval


def compare_every_byte(workspace, *, by: Actor) -> Operation:
    """Compare every byte of a paused or stopped workspace with its newest snapshot."""
    lifecycle.must_be(workspace, State.PAUSED, State.STOPPED, what="compared byte by byte")
    return lifecycle.submit_exclusive(workspace, "prove", by=by)


def keep_found(workspace, *, by: Actor) -> Operation:
    """Keep the files that a proof found different: take a snapshot and clear the alarm. Problem 409 without one."""
    workspace.refresh_from_db(fields=["alarm"])
    if not workspace.alarm:
        raise conflict(f"{workspace.key} has no differing files: it resumed exactly as it was left.")
    needs_approval.require(workspace, "keep", {}, by=by)
    return lifecycle.snapshot(workspace, by=by, kind="kept", label="current files kept")

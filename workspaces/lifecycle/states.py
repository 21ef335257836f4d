"""Pause, resume, stop and retry: submit the operation if the state allows it."""

import time
from collections.abc import Sequence
from datetime import datetime
from functools import partial

from dashboard.database import clock
from dashboard.database.threads import standing_aside
from dashboard.door.entering import refuse_when_stopped
from dashboard.models import Actor, Event, Team
from dashboard.people.access import Caller
from dashboard.problems import conflict, invalid, not_allowed, not_found, unavailable
from workspaces import operations
from workspaces.lifecycle.activity import touch
from workspaces.models import Operation, Phase, Run, State, Workspace
from workspaces.operations import absent, needs_approval
from workspaces.provisioning import capacity, caps, placement

STARTING = ("create", "resume", "restore_checkpoint")  # exclusive kinds after which the workspace is up
MOST_SHOWN = 8  # snapshots that a Run shows to its programs
STATE_WORDS = {
    State.CREATING: "is being created",
    State.SETTING_UP: "is being set up",
    State.READY: "is ready",
    State.PAUSED: "is paused",
    State.STOPPED: "is stopped",
    State.ARCHIVED: "is archived",
    State.FAILED: "has failed",
}


def record(workspace, by: Actor, verb: str, data=None, subject=None) -> Event:
    """Record the event of a change, in the change's transaction. Problem 403 if an agent needed approval for it."""
    needs_approval.check_event(workspace, verb, by=by)
    return Event.objects.record(
        workspace.team_id, actor=by, verb=verb, subject=subject or workspace, workspace=workspace, data=data
    )


def require_permission(caller: Caller, verb: str, workspace):
    """Problem 403 unless the caller's role allows the verb. Lookups have refused invisible workspaces with 404."""
    if not caller.can(verb, workspace.team_id):
        raise not_allowed("You don't have permission to do this.")


def submit_exclusive(workspace, kind: str, *, by: Actor, args=None) -> Operation:
    """Submit an exclusive operation, or return the one of the same kind that is still open."""
    comes_back = kind == "resume" and workspace.state == State.ARCHIVED
    with Team.objects.turn(workspace.team_id):
        under_way = Operation.objects.open().filter(workspace=workspace, kind=kind).first()
        if under_way is None and kind in STARTING:
            caps.refuse_when_met(workspace.team_id, workspace.environment.driver, adds=comes_back)
            _find_room(workspace)
        return under_way or operations.submit(kind, workspace=workspace, by=by, args=args, exclusive=True)


def _find_room(workspace):
    """Place a workspace anew whose files are on no host; Problem 503 if no host, or not its own, has room for it."""
    if placement.may_move_now(workspace):
        placement.place(workspace)
    else:
        capacity.refuse_when_promised(workspace)


def must_be(workspace, *states, what: str):
    """Problem 409 unless the workspace is in one of these states and not in the trash; `what` is a past participle."""
    workspace.refresh_from_db(fields=["state", "reason", "trashed_at", "purge_at", "purged_at"])
    if workspace.trashed_at:
        raise absent.refusal_of(workspace)
    if workspace.state not in states:
        because = f": {workspace.reason}" if workspace.reason else "."
        raise conflict(
            f"{workspace.key} {STATE_WORDS[workspace.state]}, so it can't be {what} now{because}",
            state=workspace.state,
        )


def must_not_be_trashed(snapshot):
    """Problem 409 for a snapshot in the trash, which a sweep may delete at any time."""
    if snapshot.trashed_at:
        raise conflict(
            f"Snapshot {snapshot.number} is in the trash. Restore it from there first.",
            code="snapshot_in_trash",
            in_trash_until=snapshot.drop_at and snapshot.drop_at.isoformat(),
        )


def dismiss(workspace, told: Operation | Run, *, by: Actor):
    """Put away what needs a person: an operation with an unknown outcome, or a Run that ended by itself."""
    with Team.objects.turn(workspace.team_id):
        if type(told).objects.filter(pk=told.pk, dismissed_at=None).update(dismissed_at=clock.now()):
            record(workspace, by, "workspace.dismissed", {"kind": getattr(told, "kind", "run")})


def resume(workspace, *, by: Actor, snapshots: Sequence[int] = ()) -> Operation | None:
    """Resume it; return None if it is already up.

    Its programs can read these snapshots at /snapshots/NUMBER, without secrets, until it is paused or stopped.
    """
    if snapshots:
        _refuse_to_show(workspace, snapshots)
    must_be(workspace, State.READY, State.PAUSED, State.STOPPED, State.ARCHIVED, what="resumed")
    refuse_when_stopped(workspace.team_id)
    if workspace.state == State.READY and not _ending(workspace):
        return None
    needs_approval.require(workspace, "resume", {}, by=by)
    if workspace.state == State.ARCHIVED:
        capacity.refuse_new()  # its files come back onto the disk
    touch(workspace)
    return submit_exclusive(
        workspace, "resume", by=by, args={"snapshots": sorted(set(snapshots))} if snapshots else None
    )


def _refuse_to_show(workspace, numbers: Sequence[int]):
    """Problem 404, 409 or 422 if its programs cannot be shown these snapshots, with the reason in words."""
    able = workspace.environment.capabilities
    if not able.shows_snapshots:
        raise conflict(f"{workspace.key} can't show snapshots to its programs. {_why_not_shown(able)}")
    if workspace.state == State.READY:
        raise conflict(f"{workspace.key} is up already. Pause it, and resume it with the snapshots.")
    if len(set(numbers)) > MOST_SHOWN:
        raise invalid(f"A workspace can show {MOST_SHOWN} snapshots at the same time.")
    kept = set(workspace.snapshots.filter(number__in=numbers, trashed_at=None).values_list("number", flat=True))
    if missing := sorted(set(numbers) - kept):
        raise not_found(f"snapshot {missing[0]}")


def _why_not_shown(able) -> str:
    if able.own_folder:
        return "They run in a folder of this host, where a person can open the snapshot as a folder."
    if able.files_need_run:
        return "A guest reaches no folder of its host; compare or restore the snapshot instead."
    return "The engine of containers doesn't mount what Handrail serves; compare or restore the snapshot instead."


def _ending(workspace) -> bool:
    kinds = ("pause", "stop", "ended")
    return Operation.objects.open().filter(workspace=workspace, kind__in=kinds).exists()


def pause(workspace, *, by: Actor, memory: bool = True, unless_used_since: datetime | None = None) -> Operation | None:
    """Pause it: files are kept, and any use resumes it. Return None if it is already paused.

    Programs continue at the resume if `memory` is wanted and the driver can keep it; otherwise they end. Activity after
    `unless_used_since`, checked when the operation starts, leaves the workspace up. An ephemeral one is not paused,
    since its files leave the host when a run ends.
    """
    must_be(workspace, State.READY, State.PAUSED, what="paused")
    if workspace.state == State.PAUSED:
        return None
    if workspace.environment.ephemeral:
        raise conflict(
            f"{workspace.key} is ephemeral: its files leave the host when its run ends, so it can't be paused. "
            "Stop it; a resume brings the files back."
        )
    wish = {} if memory else {"memory": False}
    needs_approval.require(workspace, "pause", wish, by=by)
    return submit_exclusive(workspace, "pause", by=by, args=wish | _unless_used(unless_used_since))


# What somebody does to a Run to end it, as a message says it was done to the workspace.
ENDS_ON_REQUEST = {
    "pause": "paused",
    "stop": "stopped",
    "put_away": "archived",
    "rebuild": "rebuilt",
    "trash": "deleted",
    "move": "moved",
}


def ended_on_request(workspace, since: datetime, until: datetime | None = None) -> str:
    """Return what ended the workspace's Run on request, as a past participle; "" if nothing has or a resume followed.

    Looks at what was asked for between the two times, until now by default: also at what is under way.
    """
    found = Operation.objects.filter(
        workspace=workspace, kind__in=[*ENDS_ON_REQUEST, "resume"], created_at__gte=since
    ).exclude(phase=Phase.SETTLED, outcome__ok=False)
    if until:
        found = found.filter(created_at__lte=until)
    last = found.order_by("created_at").values_list("kind", flat=True).last()
    return ENDS_ON_REQUEST.get(last, "")


def _unless_used(since: datetime | None) -> dict:
    return {"unless_used_since": since.isoformat()} if since else {}


def stop(workspace, *, by: Actor, unless_used_since: datetime | None = None) -> Operation | None:
    """Stop it: like a pause, but only an explicit resume starts it again. Return None if it is already stopped.

    `unless_used_since` as for a pause. The files of an ephemeral workspace then leave the host (services/idle.py).
    """
    must_be(workspace, State.READY, State.PAUSED, State.STOPPED, what="stopped")
    if workspace.state == State.STOPPED:
        return None
    needs_approval.require(workspace, "stop", {}, by=by)
    return submit_exclusive(workspace, "stop", by=by, args=_unless_used(unless_used_since) or None)


def archive(workspace, *, by: Actor) -> Operation | None:
    """Archive it: its files leave the host once its newest snapshot was verified, and come back when it is resumed.

    Return None if it is archived. One whose files could not all be removed can be archived again.
    """
    if workspace.environment.capabilities.own_folder:
        raise conflict(f"{workspace.key} is a connected folder: its files stay where they are.")
    must_be(workspace, State.READY, State.PAUSED, State.STOPPED, State.ARCHIVED, what="archived")
    if workspace.state == State.ARCHIVED and not workspace.reason:
        return None
    return submit_exclusive(workspace, "put_away", by=by)


def retry(workspace, *, by: Actor) -> Operation:
    """Create a failed workspace again from its source; a partly created tree is discarded."""
    must_be(workspace, State.FAILED, what="retried")
    needs_approval.require(workspace, "retry", {}, by=by)
    with Team.objects.turn(workspace.team_id):
        Workspace.objects.filter(pk=workspace.pk, state=State.FAILED).update(state=State.CREATING, reason="")
        record(workspace, by, "workspace.retried")
        return submit_exclusive(workspace, "create", by=by)


def resume_for_use(workspace, *, by: Actor):
    """Prepare it for use: resume it if it is paused. Problem 409 in any other state than ready or paused."""
    must_be(workspace, State.READY, State.PAUSED, what="used")
    if workspace.state == State.PAUSED or _ending(workspace):
        needs_approval.require(workspace, "resume", {}, by=by)
        submit_exclusive(workspace, "resume", by=by)
    touch(workspace)


def wait_until_ready(workspace, timeout: float = 20.0):
    """Wait until the resume submitted by `resume_for_use` is done; Problem 503 after `timeout` seconds."""
    if workspace.state == State.READY:
        return
    deadline = time.monotonic() + timeout
    with standing_aside() as ask:
        while workspace.state != State.READY:
            if time.monotonic() > deadline:
                raise unavailable(f"{workspace.key} did not resume within {timeout:.0f} s.")
            time.sleep(0.05)
            ask(partial(workspace.refresh_from_db, fields=["state"]))

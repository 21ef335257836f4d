"""Rehearsals: ask for one, find out whether its result still fits, forget one."""

import os

from django.conf import settings
from django.db import transaction

from dashboard.database import clock
from dashboard.models import Actor, Team
from dashboard.problems import conflict
from workspaces import lifecycle, operations
from workspaces.changes import history
from workspaces.models import Operation, Rehearsal, RehearsalStatus, State
from workspaces.provisioning import capacity
from workspaces.provisioning.isolation import holds_programs

KIND = "rehearse"
RUNNER = Actor.system("runner")
NOT_SHOWN = (
    "answers of the network",
    "processes that would go on running",
    "caches and other files in the home folder",
    "databases and other services",
)
IN_A_FOLDER = (
    "A command can't be tried first in a connected folder whose calls aren't held, or where Handrail runs as root."
)
NOT_HELD = "A command can't be tried first here: this host doesn't hold programs in envelopes."
# No envelope holds in a container, so the container itself is the box, and the copy's secrets are masked.
IN_A_CONTAINER = (
    "It runs in a container of its own, without an envelope: files with secrets are empty and closed there, and a "
    "result that changes protected files can't be applied."
)


def why_not(workspace) -> str:
    """Return why no command can be rehearsed in this workspace; "" if one can."""
    can = workspace.environment.capabilities
    if can.own_folder:  # a copy in HANDRAIL_HOME can only be shown in a box to the user that owns it
        return "" if workspace.held and settings.HANDRAIL_HELD and os.geteuid() != 0 else IN_A_FOLDER
    return "" if not can.envelopes or holds_programs(workspace) else NOT_HELD


def what_holds(workspace) -> str:
    """Return what holds a command that is tried, where that is not the medium envelope; "" where it is."""
    return "" if workspace.environment.capabilities.envelopes else IN_A_CONTAINER


def submit(workspace, *, argv: list[str], cwd: str | None, timeout_s: int, by: Actor) -> Rehearsal:
    """Ask the runner to try a command on a copy of the files. Problem 409 if that is not possible now."""
    if reason := why_not(workspace):
        raise conflict(reason, code="cannot_rehearse")
    lifecycle.must_be(workspace, State.READY, State.PAUSED, State.STOPPED, what="copied for a try")
    capacity.refuse_new()
    with Team.objects.turn(workspace.team_id):
        if Operation.objects.open().filter(workspace=workspace, kind=KIND).exists():
            raise conflict("Another command is being tried in this workspace. Try it again soon.", code="rehearsing")
        args = {"argv": argv, "cwd": cwd, "timeout_s": timeout_s}
        operation = operations.submit(KIND, workspace=workspace, args=args, by=by)
        return Rehearsal.objects.create(workspace=workspace, operation=operation, created_at=clock.now())


def is_current(rehearsal: Rehearsal) -> bool:
    """Return whether the live files are those that it was made from. Problem if they cannot be read."""
    live = history.tree_at(rehearsal.workspace, history.LIVE)
    return is_same(rehearsal.workspace, live, rehearsal.base_hex)


def is_same(workspace, one: str, other: str) -> bool:
    """Return whether two trees differ in nothing that a rehearsal copies: times, and owners unless we are root."""
    return one == other or not changes(workspace, one, other, count=False)


def changes(workspace, old: str, new: str, *, count=True) -> list[history.FileChange]:
    """Return the changes from one tree to the other that count for a rehearsal."""
    return history.changes_of_trees(workspace, old, new, count=count, owners=os.geteuid() == 0)


def without_result():
    """Return the rehearsals whose operation ended without a result, as after a restored backup."""
    return Rehearsal.objects.filter(status=RehearsalStatus.RUNNING).exclude(operation__in=Operation.objects.open())


def sweep():
    """Mark lost rehearsals as failed."""
    without_result().update(status=RehearsalStatus.FAILED, note="It was lost. Try it again.", ended_at=clock.now())


def drop(rehearsal: Rehearsal):
    """Forget a rehearsal: end it if it runs, and delete what it found. Garbage collection frees its files."""
    if rehearsal.operation_id and operations.request_cancel(rehearsal.operation):
        transaction.on_commit(operations.wake_runner)
    rehearsal.delete()


def mark_outdated(rehearsal: Rehearsal):
    Rehearsal.objects.filter(pk=rehearsal.pk, status=RehearsalStatus.DONE).update(status=RehearsalStatus.OUTDATED)


def mark_applied(rehearsal: Rehearsal):
    Rehearsal.objects.filter(pk=rehearsal.pk).update(status=RehearsalStatus.APPLIED)

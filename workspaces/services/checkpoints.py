"""Checkpoints of paused microVMs: keep one under a name, restore it, fork from it, delete it."""

from django.db import transaction

from dashboard.database import clock
from dashboard.door.entering import refuse_when_stopped
from dashboard.models import Actor, Team
from dashboard.people.access import Caller
from dashboard.problems import conflict, invalid, not_allowed
from workspaces import lifecycle, operations
from workspaces.changes import file_writes
from workspaces.lifecycle.carried import NAME
from workspaces.models import Checkpoint, Operation, State, Workspace
from workspaces.operations import needs_approval, runner_client
from workspaces.provisioning import capacity, caps
from workspaces.services.retention import holds
from workspaces.services.retention.layers.checkpoints import remove

KEEP, RESTORE = "keep_checkpoint", "restore_checkpoint"
NAME_RULE = "A name has letters, digits, dots, dashes and underscores, begins with a letter or digit."


def can_have(workspace: Workspace) -> bool:
    """Return whether pauses of this kind of workspace keep memory."""
    return workspace.environment.capabilities.memory


def has_memory(workspace: Workspace) -> bool:
    """Return whether it is paused, and its newest pause kept the memory."""
    if workspace.state != State.PAUSED or workspace.trashed_at or not can_have(workspace):
        return False
    run = workspace.runs.order_by("-started_at").first()
    return run is not None and run.memory_kept


def size_now(workspace: Workspace) -> int:
    """Return the bytes on disk that a checkpoint would take now; asks the runner. Problem if it does not answer."""
    return runner_client.ask("GET", workspace, "checkpoint-size", timeout=10)["bytes"]


def keep(workspace: Workspace, name: str, *, by: Actor) -> tuple[Checkpoint, Operation]:
    """Keep memory and files of a paused microVM under a name. Problem 409, 422, 507.

    Return it with the operation that copies them.
    """
    if not NAME.fullmatch(name):
        raise invalid(NAME_RULE)
    lifecycle.must_be(workspace, State.PAUSED, what="kept as a checkpoint")
    if not has_memory(workspace):
        raise conflict(f"{workspace.key} is paused without its memory, so there is nothing to keep but its snapshot.")
    capacity.refuse_new()
    with Team.objects.turn(workspace.team_id):
        caps.refuse_when_met(workspace.team_id, workspace.environment.driver)
        if workspace.checkpoints.filter(name=name).exists():
            raise conflict(f"{workspace.key} already has a checkpoint with the name {name}.")
        made = Checkpoint.objects.create(
            workspace=workspace,
            name=name,
            snapshot=workspace.head,
            snapshot_number=workspace.head.number if workspace.head else 0,
            environment=workspace.environment,
            base=workspace.base,
            disk_generation=workspace.disk_generation,
            by=by.as_json,
            created_at=clock.now(),
        )
        args = {"checkpoint": str(made.pk)}
        operation = operations.submit(KEEP, workspace=workspace, args=args, by=by, exclusive=True)
    return made, operation


def restore(checkpoint: Checkpoint, *, by: Actor) -> Operation:
    """Continue its workspace from the checkpoint; the files of now are in a snapshot first. Problem 409."""
    workspace = checkpoint.workspace
    lifecycle.must_be(workspace, State.READY, State.PAUSED, State.STOPPED, what="restored")
    _must_be_kept(checkpoint)
    refuse_when_stopped(workspace.team_id)
    if needs_approval.is_unapproved(by) and _changes_guarded(checkpoint):
        raise not_allowed("It would change secret or protected files. A person has to restore it.")
    args = {"checkpoint": str(checkpoint.pk)}
    return lifecycle.submit_exclusive(workspace, RESTORE, by=by, args=args)


def _changes_guarded(checkpoint: Checkpoint) -> bool:
    """Return whether its files differ from the live ones at a path that needs a person, as far as a snapshot tells."""
    found = checkpoint.workspace.snapshots.filter(number=checkpoint.snapshot_number).first()
    return found is None or file_writes.changes_guarded(checkpoint.workspace, found.tree_hex)


def fork(checkpoint: Checkpoint, key: str, *, caller: Caller) -> Workspace:
    """Create a workspace that continues from the checkpoint. Problem 409, 422."""
    _must_be_kept(checkpoint)
    refuse_when_stopped(checkpoint.workspace.team_id)
    return lifecycle.fork_checkpoint(checkpoint, lifecycle.check_key(key), caller=caller)


def _must_be_kept(checkpoint: Checkpoint):
    if checkpoint.bytes is None:
        raise conflict(f"{checkpoint.name} is still being kept. Try again in a moment.")


def delete(checkpoint: Checkpoint, *, by: Actor):
    """Delete it; the runner removes its files. Problem 409 while it is on hold or in use."""
    workspace = checkpoint.workspace
    with transaction.atomic():
        holds.lock(workspace.team_id)
        if held := holds.Held(workspace.team, clock.now()).on_workspace(workspace.pk):
            raise conflict(f"{checkpoint.name} is on hold: {held.reason}")
        if in_use(checkpoint):
            raise conflict(f"{checkpoint.name} is in use. Try again when that is over.")
        remove(checkpoint, by=by)


def in_use(checkpoint: Checkpoint) -> bool:
    """Return whether it is being kept or restored, or a fork of it is being created."""
    pk = str(checkpoint.pk)
    of_its_own = Operation.objects.open().filter(kind__in=(KEEP, RESTORE), args__checkpoint=pk)
    making = Operation.objects.open().filter(kind="create", workspace__source__fork__checkpoint=pk)
    return of_its_own.exists() or making.exists()

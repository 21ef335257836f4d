"""Checkpoints of microVMs."""

from dashboard.models import Actor, Event
from workspaces import operations
from workspaces.models import Checkpoint, Operation
from workspaces.services.retention.actor import SWEEPER
from workspaces.services.retention.layers.base import Layer, Terms


class Checkpoints(Layer):
    name = "checkpoints"
    label = "Checkpoints of microVMs"
    covers = "Memory and files that were kept under a name. The workspace, its snapshots and its forks stay."
    default = Terms(None)
    counts = ("newest",)

    def due(self, scope):
        rows = Checkpoint.objects.kept().filter(workspace__team=scope.team).select_related("workspace__environment")
        seen: dict = {}
        busy = {str(pk) for pk in _in_use()}
        for checkpoint in rows.order_by("-created_at"):
            workspace = checkpoint.workspace
            terms = scope.terms(self, workspace.environment.name)
            cutoff = terms.cutoff(scope.at)
            place = seen[workspace.pk] = seen.get(workspace.pk, 0) + 1
            if cutoff is None or checkpoint.created_at >= cutoff or place <= terms.newest or str(checkpoint.pk) in busy:
                continue
            name = f"checkpoint {checkpoint.name} of {workspace.key}"
            yield scope.item_of(workspace, name, checkpoint.created_at, checkpoint.pk)

    def delete(self, scope, items):
        rows = Checkpoint.objects.filter(pk__in=[item.pk for item in items]).select_related("workspace")
        for checkpoint in rows:
            remove(checkpoint, by=SWEEPER)


def _in_use() -> list[str]:
    """Return the ids of checkpoints that operations in progress read."""
    open_ones = Operation.objects.open().filter(kind__in=("restore_checkpoint", "create"))
    pairs = open_ones.values_list("args__checkpoint", "workspace__source__fork__checkpoint")
    return [pk for pair in pairs for pk in pair if pk]


def remove(checkpoint: Checkpoint, *, by: Actor):
    """Delete a checkpoint in the caller's transaction; an operation removes its files after the commit."""
    workspace = checkpoint.workspace
    data = {"name": checkpoint.name, "key": workspace.key, "bytes": checkpoint.bytes}
    about = {"subject": checkpoint, "workspace": workspace, "data": data}
    Event.objects.record(workspace.team_id, actor=by, verb="checkpoint.deleted", **about)
    operations.submit("drop_checkpoint", workspace=workspace, args={"checkpoint": str(checkpoint.pk)}, by=by)
    checkpoint.delete()

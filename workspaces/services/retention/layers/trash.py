"""The trash: snapshots and workspaces that are deleted for good at their date."""

from django.conf import settings

from workspaces import lifecycle
from workspaces.models import Snapshot, Workspace
from workspaces.services.retention.actor import SWEEPER
from workspaces.services.retention.layers.base import Item, Layer, Terms

SNAPSHOT, WORKSPACE = "snapshot", "workspace"


class Trash(Layer):
    name = "trash"
    label = "Trash"
    covers = (
        "Deleted workspaces and snapshots can be restored for so long, and are deleted for good afterwards. "
        "The date of what is in the trash already stays as it is."
    )
    default = Terms(settings.HANDRAIL_TRASH_DAYS)
    must_end = True
    unit = "days in the trash"

    def due(self, scope):
        rows = Snapshot.objects.in_trash().filter(workspace__team=scope.team, drop_at__lte=scope.at)
        for pk, number, workspace, drop_at in rows.values_list("pk", "number", "workspace_id", "drop_at"):
            known = scope.workspaces.get(workspace)
            if known is not None and not known.is_busy and not scope.is_in_use(pk):
                name = f"snapshot {number}"
                yield Item(pk, name, drop_at, workspace, known.key, snapshot_id=pk, group=(SNAPSHOT,))
        for workspace in Workspace.objects.in_trash().filter(team=scope.team, purge_at__lte=scope.at):
            # The sweep leaves out what is held itself; here also one of which a snapshot is held.
            if workspace.pk not in scope.held.with_snapshot:
                where = (workspace.pk, workspace.key)
                yield Item(workspace.pk, workspace.key, workspace.purge_at, *where, group=(WORKSPACE,))

    def delete(self, scope, items):
        Snapshot.objects.in_trash().filter(pk__in=[item.pk for item in items if item.group == (SNAPSHOT,)]).delete()
        gone = [item.pk for item in items if item.group == (WORKSPACE,)]
        for workspace in Workspace.objects.in_trash().filter(pk__in=gone):
            if scope.held.on_workspace(workspace.pk) is None:
                lifecycle.submit_exclusive(workspace, "purge", by=SWEEPER)

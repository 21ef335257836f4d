"""Old versions of workspaces' notes."""

from workspaces.models import NoteVersion
from workspaces.services.retention.layers.base import Item, Layer, Terms


class OldNotes(Layer):
    name = "notes"
    label = "Old versions of notes"
    covers = (
        "Versions of a workspace's notes that a newer one replaced. The newest stays, and the one that is the file in "
        "the workspace. A hand-over whose version is gone shows no notes."
    )
    default = Terms(365, newest=10)
    counts = ("newest",)

    def due(self, scope):
        columns = ("pk", "workspace_id", "number", "given_at", "created_at")
        rows = NoteVersion.objects.filter(workspace__team=scope.team, workspace__purged_at=None)
        seen: dict[object, int] = {}  # how many newer versions each workspace has
        is_told: set = set()  # the workspaces whose file's version was passed
        for pk, workspace, number, given_at, at in rows.order_by("workspace_id", "-number").values_list(*columns):
            newer = seen.get(workspace, 0)
            seen[workspace] = newer + 1
            is_file = given_at is not None and workspace not in is_told
            if is_file:
                is_told.add(workspace)
            known = scope.workspaces[workspace]
            terms = scope.terms(self, known.environment)
            cutoff = terms.cutoff(scope.at)
            if cutoff is None or at >= cutoff or is_file or newer < max(terms.newest, 1):
                continue
            yield Item(pk, f"notes of {known.key}, version {number}", at, workspace, known.key)

    def delete(self, scope, items):
        NoteVersion.objects.filter(pk__in=[item.pk for item in items]).delete()

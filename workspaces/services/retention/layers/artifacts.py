"""Artifacts: those whose own time is over, and the others after the team's."""

from dashboard.models import Actor, Event
from workspaces.models import Artifact
from workspaces.services.retention.actor import SWEEPER
from workspaces.services.retention.layers.base import Item, Layer, Terms


class Artifacts(Layer):
    name = "artifacts"
    label = "Artifacts"
    covers = (
        "Files that were kept as artifacts. One with a time of its own is deleted when that is over, whatever the "
        "rule says; the rule is for those that are kept without one."
    )
    default = Terms(None)
    by_environment = False

    def due(self, scope):
        cutoff = scope.terms(self).cutoff(scope.at)
        for artifact in Artifact.objects.filter(team=scope.team).order_by("created_at"):
            own = artifact.expires_at
            if own <= scope.at if own else cutoff is not None and artifact.created_at < cutoff:
                name = f"artifact {artifact.name} of {artifact.key}"
                yield Item(artifact.pk, name, artifact.created_at, artifact.workspace_id, artifact.key)

    def delete(self, scope, items):
        for artifact in Artifact.objects.filter(pk__in=[item.pk for item in items]):
            remove(artifact, by=SWEEPER)


def remove(artifact: Artifact, *, by: Actor):
    """Delete an artifact in the caller's transaction. The store's next collection frees what only it needed."""
    data = {"name": artifact.name, "key": artifact.key, "bytes": artifact.bytes}
    about = {"subject": artifact, "workspace": artifact.workspace_id, "data": data}
    Event.objects.record(artifact.team_id, actor=by, verb="artifact.deleted", **about)
    artifact.delete()

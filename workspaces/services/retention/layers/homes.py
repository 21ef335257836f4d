"""The agent's home folder in workspaces that are down."""

from django.db.models import F, Q

from workspaces.models import State
from workspaces.services.retention.forgetting import forget
from workspaces.services.retention.layers.base import Layer, Terms


class Homes(Layer):
    name = "home"
    label = "Agents' home folders"
    covers = (
        "Emptied in a paused or stopped workspace that nobody used for so long: the agent's sessions and caches. "
        "Files in /workspace stay."
    )
    default = Terms(30)
    unit = "days without use"

    def due(self, scope):
        never = Q(home_swept_at=None) | Q(home_swept_at__lt=F("last_active_at"))
        for workspace in scope.down().filter(never).exclude(state=State.ARCHIVED):  # that has no home
            cutoff = scope.terms(self, workspace.environment.name).cutoff(scope.at)
            if cutoff is not None and workspace.last_active_at and workspace.last_active_at < cutoff:
                yield scope.item_of(workspace, f"home of {workspace.key}", workspace.last_active_at)

    def delete(self, scope, items):
        for item in items:
            forget(item.workspace_id, home=True)

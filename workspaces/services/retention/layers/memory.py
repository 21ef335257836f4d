"""The kept memory of paused microVMs."""

from contextlib import suppress

from dashboard.problems import Problem
from workspaces import lifecycle
from workspaces.models import State, Workspace
from workspaces.services.retention.actor import SWEEPER
from workspaces.services.retention.layers.base import Layer, Terms


class Memory(Layer):
    name = "memory"
    label = "Memory of paused microVMs"
    covers = "Discarded by stopping the workspace: its programs end, its files stay, and the next resume boots it."
    default = Terms(14)
    unit = "days without use"

    def due(self, scope):
        for workspace in scope.down().filter(state=State.PAUSED).exclude(last_active_at=None):
            cutoff = scope.terms(self, workspace.environment.name).cutoff(scope.at)
            keeps = workspace.environment.capabilities.memory
            if keeps and cutoff is not None and workspace.last_active_at < cutoff:
                yield scope.item_of(workspace, f"memory of {workspace.key}", workspace.last_active_at)

    def delete(self, scope, items):
        for workspace in Workspace.objects.filter(pk__in=[item.pk for item in items]).select_related("team"):
            with suppress(Problem):  # its state has just changed
                lifecycle.stop(workspace, by=SWEEPER)

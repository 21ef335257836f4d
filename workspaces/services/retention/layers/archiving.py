"""Unused workspaces whose files leave the host: archived, before the rule of unused workspaces deletes them."""

from contextlib import suppress

from dashboard.problems import Problem
from workspaces import lifecycle
from workspaces.models import State, Workspace
from workspaces.services.retention.actor import SWEEPER
from workspaces.services.retention.layers.base import Layer
from workspaces.services.retention.layers.workspaces import UnusedWorkspaces


class ToArchive(Layer):
    name = "archive"
    label = "Files of unused workspaces"
    covers = (
        "Archived when nobody used the workspace for so long: its files leave the host once its newest snapshot was "
        "verified, and come back when it is resumed. The agent's home is removed. Nobody is warned."
    )
    unit = "days without use"

    def due(self, scope):
        gone = {item.pk for item in UnusedWorkspaces().due(scope)}  # those the next rule takes anyway
        at_rest = scope.down().filter(state__in=[State.PAUSED, State.STOPPED]).exclude(last_active_at=None)
        for workspace in at_rest.exclude(head=None):
            cutoff = scope.terms(self, workspace.environment.name).cutoff(scope.at)
            if cutoff is not None and workspace.last_active_at < cutoff and workspace.pk not in gone:
                yield scope.item_of(workspace, f"files of {workspace.key}", workspace.last_active_at)

    def delete(self, scope, items):
        for workspace in Workspace.objects.filter(pk__in=[item.pk for item in items]).select_related("environment"):
            with suppress(Problem):  # its state has just changed
                lifecycle.archive(workspace, by=SWEEPER)

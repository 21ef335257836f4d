"""Unused workspaces, which go to the trash some time after a warning. Using one, or *Keep*, cancels the warning."""

from contextlib import suppress
from datetime import timedelta

from dashboard.problems import Problem
from workspaces import lifecycle
from workspaces.models import Workspace
from workspaces.services.retention.actor import SWEEPER
from workspaces.services.retention.layers.base import Layer, Terms

NOTICE_DAYS = 7


def notice(terms: Terms) -> timedelta:
    """Return the time between a warning and the move to the trash."""
    return timedelta(days=min(NOTICE_DAYS, max(1, terms.days // 2)))


class UnusedWorkspaces(Layer):
    name = "workspaces"
    label = "Unused workspaces"
    covers = (
        "Moved to the trash, with a snapshot of everything, when nobody used them for so long and people were warned a "
        "week before (or halfway, if sooner). Connected folders and workspaces that are up are never moved."
    )
    unit = "days without use"

    def to_warn(self, scope):
        """Return the unused workspaces that people are, or must be, warned about."""
        for workspace in scope.down().exclude(last_active_at=None):
            terms = scope.terms(self, workspace.environment.name)
            cutoff = terms.cutoff(scope.at)
            if cutoff is not None and workspace.last_active_at < cutoff + notice(terms):
                yield workspace

    def due(self, scope):
        for workspace in self.to_warn(scope):
            terms = scope.terms(self, workspace.environment.name)
            warned = workspace.warned_at
            is_due = workspace.last_active_at < terms.cutoff(scope.at) and warned is not None
            if is_due and workspace.last_active_at < warned <= scope.at - notice(terms):
                yield scope.item_of(workspace, workspace.key, workspace.last_active_at)

    def delete(self, scope, items):
        for workspace in Workspace.objects.filter(pk__in=[item.pk for item in items]).select_related("team"):
            with suppress(Problem):  # its state has just changed
                lifecycle.trash(workspace, by=SWEEPER)

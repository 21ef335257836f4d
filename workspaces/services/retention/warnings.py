"""Warnings before an unused workspace goes to the trash, and how people keep it."""

from datetime import datetime, timedelta

from django.db.models import F, Q

from dashboard.database import clock
from dashboard.models import Actor, Team
from workspaces import lifecycle
from workspaces.models import Workspace
from workspaces.services.retention.actor import SWEEPER
from workspaces.services.retention.layers import Terms, layer_named
from workspaces.services.retention.layers.workspaces import notice
from workspaces.services.retention.rules import Rules


def _terms(workspace: Workspace, rules: Rules) -> Terms:
    return rules.in_force(layer_named("workspaces"), workspace.environment.name).terms


def goes_at(workspace: Workspace, rules: Rules) -> datetime | None:
    """Return when it goes to the trash if nobody uses it; None without a warning that still holds."""
    terms, warned, used = _terms(workspace, rules), workspace.warned_at, workspace.last_active_at
    if terms.days is None or workspace.trashed_at or warned is None or used is None or warned <= used:
        return None
    return max(used + timedelta(days=terms.days), warned + notice(terms))


def when_it_goes(workspace: Workspace) -> datetime | None:
    """Like `goes_at`, with the rules of its team."""
    return goes_at(workspace, Rules.of(workspace.team_id)) if workspace.warned_at else None


def keep_unused(workspace: Workspace, *, by: Actor):
    """Keep an unused workspace: it counts as used now."""
    with Team.objects.turn(workspace.team_id):
        Workspace.objects.filter(pk=workspace.pk).update(last_active_at=clock.now())
        lifecycle.record(workspace, by, "workspace.kept")


def to_warn(scope) -> list[Workspace]:
    """Return the workspaces that people must be warned about now: unused, not held, and not warned about since."""
    return [
        workspace
        for workspace in layer_named("workspaces").to_warn(scope)
        if scope.held.on_workspace(workspace.pk) is None
        and (workspace.warned_at is None or workspace.warned_at <= workspace.last_active_at)
    ]


def warn(scope) -> int:
    """Warn about unused workspaces; return how many."""
    return sum(_warn(workspace, scope) for workspace in to_warn(scope))


def _warn(workspace: Workspace, scope) -> bool:
    stale = Q(warned_at=None) | Q(warned_at__lte=F("last_active_at"))
    with Team.objects.turn(workspace.team_id):
        if not Workspace.objects.filter(stale, pk=workspace.pk).update(warned_at=scope.at):
            return False
        workspace.refresh_from_db(fields=["warned_at", "last_active_at"])
        goes, days = goes_at(workspace, scope.rules), _terms(workspace, scope.rules).days
        data = {"until": goes.isoformat() if goes else None, "days": days}
        lifecycle.record(workspace, SWEEPER, "workspace.warned", data)
    return True

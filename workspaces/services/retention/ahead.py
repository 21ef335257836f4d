"""What retention takes of whole workspaces in the next days: to the archive, to the trash, or out of it for good."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F, TextChoices

from dashboard.database import clock
from workspaces.models import State, Workspace
from workspaces.services.retention.holds import Held
from workspaces.services.retention.layers import layer_named
from workspaces.services.retention.rules import Rules
from workspaces.services.retention.warnings import goes_at

MAX = 50  # workspaces of one kind that are looked at
ARCHIVE_AHEAD, DELETE_AHEAD = timedelta(days=3), timedelta(days=2)


class What(TextChoices):
    """What happens to it; of the trash people are warned a week before (layers/workspaces.py)."""

    ARCHIVE = "archive"
    TRASH = "trash"
    DELETE = "delete"


@dataclass(frozen=True)
class Going:
    """A workspace that retention takes, what happens to it, and when."""

    workspace: Workspace
    what: What
    at: datetime


class _Teams:
    """Rules and holds of the teams, each read once."""

    def __init__(self, now: datetime):
        self.now, self._rules, self._held = now, {}, {}

    def rules(self, team_id) -> Rules:
        if team_id not in self._rules:
            self._rules[team_id] = Rules.of(team_id)
        return self._rules[team_id]

    def holds(self, workspace: Workspace) -> bool:
        if workspace.team_id not in self._held:
            self._held[workspace.team_id] = Held(workspace.team_id, self.now)
        return self._held[workspace.team_id].on_workspace(workspace.pk) is not None


def going(caller) -> list[Going]:
    """Return what goes of the workspaces that the caller may see and nothing holds, the next one first."""
    teams = _Teams(clock.now())
    rows = Workspace.objects.visible_to(caller).not_connected_folders()
    rows = rows.select_related("team", "environment")
    found = [*_to_trash(rows, teams), *_to_archive(rows, teams, caller.team_ids), *_to_delete(rows, teams)]
    return sorted((each for each in found if not teams.holds(each.workspace)), key=lambda each: each.at)


def _to_trash(rows, teams: _Teams) -> list[Going]:
    warned = rows.kept().exclude(state=State.READY).filter(warned_at__gt=F("last_active_at")).order_by("warned_at")
    found = ((workspace, goes_at(workspace, teams.rules(workspace.team_id))) for workspace in warned[:MAX])
    return [Going(workspace, What.TRASH, at) for workspace, at in found if at]


def _to_archive(rows, teams: _Teams, team_ids) -> list[Going]:
    layer, soon, found = layer_named("archive"), teams.now + ARCHIVE_AHEAD, []
    ruled = [team for team in team_ids if any(name == layer.name for _, name in teams.rules(team).own)]
    if not ruled:
        return []
    next_sweep = clock.next_at_hour(settings.HANDRAIL_SWEEP_HOUR)
    at_rest = rows.kept().filter(team__in=ruled, state__in=[State.PAUSED, State.STOPPED], last_active_at__lt=soon)
    for workspace in at_rest.exclude(head=None).order_by("last_active_at")[:MAX]:
        days = teams.rules(workspace.team_id).in_force(layer, workspace.environment.name).terms.days
        if days is not None and (at := workspace.last_active_at + timedelta(days=days)) <= soon:
            found.append(Going(workspace, What.ARCHIVE, max(at, next_sweep)))
    return found


def _to_delete(rows, teams: _Teams) -> list[Going]:
    gone = rows.in_trash().filter(purge_at__lte=teams.now + DELETE_AHEAD).order_by("purge_at")[:MAX]
    return [Going(workspace, What.DELETE, workspace.purge_at) for workspace in gone]

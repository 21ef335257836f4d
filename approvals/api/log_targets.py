"""Targets of a team's log over HTTP, for its admins: list, add, switch, remove."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from ninja import Router, Schema, Status
from pydantic import Field

from approvals.models import LogTarget
from approvals.notify.log_targets import targets
from dashboard.models import Team
from dashboard.problems import not_allowed
from dashboard.web.api_base import PROBLEMS
from dashboard.web.lookup import find

router = Router(tags=["log targets"])


class TargetOut(Schema):
    id: UUID
    kind: str
    address: str
    only_alerts: bool
    active: bool
    behind: int = Field(description="events that it has not got yet")
    problem: str = Field(description="of the last try; empty if it went well")
    sent_at: datetime | None
    created_at: datetime


class Targets(Schema):
    targets: list[TargetOut]


class TargetIn(Schema):
    kind: Literal["webhook", "syslog", "folder", "admins"]
    address: str = Field("", max_length=500, description="of a webhook or syslog server; empty for the others")
    only_alerts: bool = False
    from_start: bool = Field(False, description="send the whole log, not only what happens from now on")


class NewTarget(TargetOut):
    key: str = Field(description="signs a webhook's requests; shown only here")


class Switch(Schema):
    active: bool


def _team(request) -> Team:
    team = Team.objects.get(pk=request.auth.team_ids[0])
    if not request.auth.can("manage_log_targets", team):
        raise not_allowed("You don't have permission to do this.")
    return team


@router.get("/log-targets", response={200: Targets} | PROBLEMS)
def list_targets(request):
    """Return where the team's log is sent as it happens; for an admin."""
    team = _team(request)
    return Status(200, {"targets": [_shown(one, team) for one in team.log_targets.order_by("created_at", "pk")]})


@router.post("/log-targets", response={201: NewTarget} | PROBLEMS)
def add_target(request, body: TargetIn):
    """Add a target; for an admin."""
    team = _team(request)
    flags = {"only_alerts": body.only_alerts, "from_start": body.from_start}
    made, key = targets.add(team, body.kind, body.address, **flags, by=request.auth.actor)
    return Status(201, _shown(made, team) | {"key": key})


@router.patch("/log-targets/{target_id}", response={200: TargetOut} | PROBLEMS)
def switch_target(request, target_id: UUID, body: Switch):
    """Switch a target off, or on again: it then gets what it missed. For an admin."""
    target, team = _target(request, target_id)
    targets.switch(target, body.active, by=request.auth.actor)
    target.refresh_from_db()
    return Status(200, _shown(target, team))


@router.delete("/log-targets/{target_id}", response={204: None} | PROBLEMS)
def remove_target(request, target_id: UUID):
    """Remove a target; for an admin."""
    targets.remove(_target(request, target_id)[0], by=request.auth.actor)
    return Status(204, None)


def _target(request, target_id: UUID) -> tuple[LogTarget, Team]:
    team = _team(request)
    return find(LogTarget.objects.filter(team=team).select_related("team"), target_id, "target"), team


def _shown(target: LogTarget, team: Team) -> dict:
    shared = ("kind", "address", "only_alerts", "active", "problem", "sent_at", "created_at")
    behind = max(team.event_seq - target.cursor, 0)
    return {"id": target.pk, "behind": behind} | {name: getattr(target, name) for name in shared}

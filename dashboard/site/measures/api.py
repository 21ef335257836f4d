"""Measures over the API: JSON for people's tokens, Prometheus text for those of leads and admins."""

from datetime import date
from typing import Any

from django.http import HttpResponse
from ninja import Query, Router, Schema, Status
from pydantic import ConfigDict, Field

from dashboard.models import Team
from dashboard.problems import not_allowed
from dashboard.site.measures import exposition, figures, period
from dashboard.web.api_base import PROBLEMS
from workspaces.services import caps

router = Router(tags=["measures"])
AS_TEXT = {"responses": {200: {"description": "OK", "content": {"text/plain": {"schema": {"type": "string"}}}}}}


class Days(Schema):
    """Query parameters: dates in UTC, both included; without them the last 30 days."""

    model_config = ConfigDict(populate_by_name=True)

    first: str = Field("", alias="from", max_length=10)
    last: str = Field("", alias="to", max_length=10)


class MeasuresOut(Schema):
    """The figures; docs/measures.md defines each."""

    model_config = ConfigDict(populate_by_name=True)

    team: str
    first: date = Field(alias="from")
    last: date = Field(alias="to")
    persistence: dict[str, Any]
    calls: dict[str, Any]
    latency: dict[str, Any]
    awake: dict[str, Any]
    disk: dict[str, Any]
    egress: dict[str, Any]
    tokens: dict[str, Any]
    cost: dict[str, Any]
    days: list[dict[str, Any]]


def _team(request, verb: str) -> Team:
    team = Team.objects.get(pk=request.auth.team_ids[0])
    if not request.auth.can(verb, team):
        raise not_allowed("You don't have permission to do this.")
    return team


@router.get("/measures", response={200: MeasuresOut} | PROBLEMS, by_alias=True)
def measures(request, wanted: Query[Days]):
    """Return what persistence and approvals are worth and cost in a period.

    Figures of single people are there only for leads and admins, and for the person.
    """
    team = _team(request, "read_measures")
    return Status(200, figures.measure(team, period.read(wanted.first, wanted.last), request.auth))


@router.get("/metrics", response={200: str} | PROBLEMS, openapi_extra=AS_TEXT)
def metrics(request):
    """Return the team's state and this month's sums as Prometheus text, for a lead's or an admin's token."""
    team = _team(request, "scrape_metrics")
    return HttpResponse(exposition.text(team), content_type=exposition.CONTENT_TYPE)


class LimitOut(Schema):
    """A limit of the team and its use, of this month or of now; money in hundredths of the team's currency."""

    measure: str = Field(description="awake_hours, egress_bytes, workspaces, disk_bytes, agent_tokens or agent_cost")
    limit: int
    used: float
    share: float = Field(description="of the limit, in per cent")
    is_met: bool
    is_lifted: bool = Field(description="until the end of the month")


class LimitsOut(Schema):
    limits: list[LimitOut]


class LimitIn(Schema):
    """A limit in hours, bytes, workspaces, tokens or hundredths of the currency; null removes it."""

    model_config = ConfigDict(extra="forbid")

    limit: int | None = Field(ge=1, le=caps.MAX_LIMIT)


def _limits(team) -> dict:
    names = ("used", "share", "is_met", "is_lifted")
    found = [(one["cap"], {name: one[name] for name in names}) for one in caps.of(team)]
    return {"limits": [{"measure": cap.measure, "limit": cap.limit} | told for cap, told in found]}


@router.get("/measures/limits", response={200: LimitsOut} | PROBLEMS)
def limits(request):
    """Return the limits of the team, each with what is used of it."""
    return Status(200, _limits(_team(request, "read_measures")))


@router.put("/measures/limits/{measure}", response={200: LimitsOut} | PROBLEMS)
def set_limit(request, measure: str, wish: LimitIn):
    """Set or remove a limit of the team. A changed limit counts anew."""
    team = _team(request, "set_caps")
    caps.set_limit(team, measure, wish.limit, by=request.auth.actor)
    return Status(200, _limits(team))


@router.post("/measures/limits/{measure}/lift", response={200: LimitsOut} | PROBLEMS)
def lift_limit(request, measure: str):
    """Let workspaces be made and started beyond the limit until the end of the month."""
    team = _team(request, "lift_cap")
    caps.lift(team, measure, by=request.auth.actor)
    return Status(200, _limits(team))

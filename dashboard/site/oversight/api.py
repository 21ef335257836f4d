"""The oversight report over the API: JSON, or a file."""

from typing import Any, Literal

from ninja import Query, Router, Schema, Status
from pydantic import ConfigDict, Field

from dashboard.models import Team
from dashboard.problems import not_allowed
from dashboard.site.measures import period
from dashboard.site.oversight.figures import oversight
from dashboard.site.oversight.pages import as_file
from dashboard.web.api_base import PROBLEMS

router = Router(tags=["measures"])


class WantedReport(Schema):
    """Query parameters: dates in UTC, both included; without them the last 30 days."""

    model_config = ConfigDict(populate_by_name=True)

    first: str = Field("", alias="from", max_length=10)
    last: str = Field("", alias="to", max_length=10)
    format: Literal["json", "csv", "html", "pdf"] = Field(
        "json", description="html and pdf are signed: python -m handrail_verify report"
    )


class OversightOut(Schema):
    """The report; docs/oversight.md defines each figure."""

    model_config = ConfigDict(populate_by_name=True)

    report: int = Field(description="version of this form")
    team: str
    first: str = Field(alias="from")
    last: str = Field(alias="to")
    made_at: str
    calls: dict[str, int]
    undo: dict[str, int] = Field(description="calls that ran by whether they can be undone, and what was taken back")
    reviewers: dict[str, int]
    decisions: dict[str, Any]
    by_tier: list[dict[str, Any]]
    by_person: list[dict[str, Any]] = Field(description="everybody for leads and admins, else the caller alone")
    attention: dict[str, int]
    exceptions: dict[str, int]
    stops: dict[str, int]
    log: dict[str, Any] = Field(description="{events, checkpoint}: the newest event, and its newest signed checkpoint")


@router.get("/oversight", response={200: OversightOut} | PROBLEMS, by_alias=True)
def get_oversight(request, wanted: Query[WantedReport]):
    """Return who decided what in a period, how fast, with which exceptions, and how agents were stopped."""
    team = Team.objects.get(pk=request.auth.team_ids[0])
    if not request.auth.can("read_measures", team):
        raise not_allowed("You don't have permission to do this.")
    found = oversight(team, period.read(wanted.first, wanted.last), request.auth)
    return Status(200, found) if wanted.format == "json" else as_file(found, team, wanted.format)

"""What changed, what an agent did, and what ran without asking, over HTTP."""

from datetime import datetime, timedelta
from uuid import UUID

from ninja import Query, Router, Schema
from pydantic import Field

from approvals.reports import auto_approved
from approvals.reports.agent_day import day_of
from approvals.reports.agent_identity import known_to
from approvals.reports.changed_since import Changed, changed_since
from dashboard.database import clock
from dashboard.problems import invalid, not_allowed
from dashboard.web import lookup
from dashboard.web.api_base import PROBLEMS
from workspaces.api.schemas import Strict
from workspaces.programs.checks import Check

router = Router(tags=["overview"])
MAX_LISTED = 200  # auto-approved actions in one answer


class CheckOut(Schema):
    name: str
    state: str = Field(description="failed, uncertain, cancelled, running, passed or never_run")


class ChangedOut(Schema):
    """A workspace with snapshots in the span; compare `from` with `to` for its differences."""

    workspace: str
    team: str
    repository: str = Field(description="empty if it was made from none")
    from_: int = Field(alias="from", description="the last snapshot before the span, or its first one")
    to: int = Field(description="the last snapshot of the span")
    is_new: bool = Field(description="it had no snapshot before the span")
    at: datetime
    additions: int | None = Field(description="lines; null: not counted, ask again")
    deletions: int | None
    files: int | None
    tier: str = Field(description="the highest tier of the actions that ran there; empty if none did")
    actions: dict[str, int] = Field(description="how many actions of each tier ran")
    agents: list[str]
    checks: list[CheckOut]


class ChangedWorkspacesOut(Schema):
    total: int = Field(description="of all workspaces that changed; the 200 that changed last are listed")
    changes: list[ChangedOut]


class AgentDayOut(Schema):
    agent: str
    counts: dict[str, int]
    prompts: list[str] = Field(description="what it was asked, newest first")
    commands: list[str]
    hosts: list[str] = Field(description="that programs in its workspaces reached or tried")
    changes: list[ChangedOut]


class UnaskedOut(Schema):
    action: UUID
    number: int
    title: str
    agent: str
    workspace: str | None
    at: datetime
    reasons: list[str] = Field(
        description="the weightiest first: " + ", ".join(auto_approved.Why.values),
    )
    weight: int
    looked_by: str | None
    looked_at: datetime | None


class UnaskedListOut(Schema):
    total: int = Field(description="of all that are worth a look; the first 200 are listed")
    ranked: int
    actions: list[UnaskedOut]


class LookedIn(Strict):
    actions: list[UUID] = Field(max_length=auto_approved.MAX_MARKED)


class LookedOut(Schema):
    marked: int


SINCE = Query(..., description="RFC 3339, with an offset")
UNTIL = Query(None, description="RFC 3339; without it: now")


def _span(since: datetime, until: datetime | None):
    if since.tzinfo is None or (until and until.tzinfo is None):
        raise invalid("since and until need an offset, such as Z.")
    if until and until <= since:
        raise invalid("until must be after since.")


@router.get("/changes", response={200: ChangedWorkspacesOut} | PROBLEMS, by_alias=True)
def read_changes(request, since: datetime = SINCE, until: datetime | None = UNTIL):
    """Return what changed in a span over all workspaces that the caller may see, from their snapshots."""
    _span(since, until)
    found = changed_since(request.auth, since, until)
    return {"total": found.total, "changes": [_changed(row) for row in found.rows]}


@router.get("/agents/{agent_id}/day", response={200: AgentDayOut} | PROBLEMS, by_alias=True)
def read_agent_day(request, agent_id: UUID, since: datetime | None = None, until: datetime | None = UNTIL):
    """Return what an agent did in a span; without `since` in the last 24 hours. For people."""
    agent = lookup.find(known_to(request.auth), agent_id, "agent")
    if not request.auth.is_person:
        raise not_allowed("Only people can read what an agent did.")
    until = until or clock.now()
    since = since or until - timedelta(days=1)
    _span(since, until)
    day = day_of(agent, request.auth, since, until)
    return {
        "agent": agent.name,
        "counts": day.counts,
        "prompts": [prompt.text for prompt in day.prompts],
        "commands": [command.shown for command in day.commands],
        "hosts": list(dict.fromkeys(f"{contact.host}:{contact.port}" for contact in day.hosts)),
        "changes": [_changed(row) for row in day.changed.rows],
    }


@router.get("/unasked", response={200: UnaskedListOut} | PROBLEMS)
def read_unasked(request, since: datetime = SINCE, until: datetime | None = UNTIL, looked: bool = False):
    """Return what the policy or a grant let run in a span and is worth a look, the weightiest first. For people."""
    if not request.auth.is_person:
        raise not_allowed("Only people can read what is worth a look.")
    _span(since, until)
    found, ranked = auto_approved.ranked(request.auth, since, until, looked=looked)
    return {"total": len(found), "ranked": ranked, "actions": [_auto_approved(each) for each in found[:MAX_LISTED]]}


@router.post("/unasked/looked", response={200: LookedOut} | PROBLEMS)
def mark_looked(request, body: LookedIn):
    """Mark actions as looked at by the caller. What is marked already, or not the caller's to see, is left out."""
    return {"marked": auto_approved.mark_looked(request.auth, body.actions)}


def _changed(row: Changed) -> dict:
    lines = row.lines
    return {
        "workspace": row.workspace.key,
        "team": row.workspace.team.slug,
        "repository": row.repository,
        "from": row.before.number,
        "to": row.after.number,
        "is_new": row.is_new,
        "at": row.after.created_at,
        "additions": lines and lines.additions,
        "deletions": lines and lines.deletions,
        "files": lines and lines.files,
        "tier": row.tier,
        "actions": dict(row.actions),
        "agents": [agent.name for agent in row.agents],
        "checks": [_check(check) for check in row.checks],
    }


def _check(check: Check) -> dict:
    return {"name": check.name, "state": check.state.value}


def _auto_approved(found: auto_approved.Found) -> dict:
    action, look = found.action, getattr(found.action, "look", None)
    return {
        "action": action.pk,
        "number": action.number,
        "title": action.title,
        "agent": action.agent.name,
        "workspace": action.workspace.key if action.workspace else None,
        "at": action.created_at,
        "reasons": [why.value for why in found.why],
        "weight": found.weight,
        "looked_by": look and look.user.get_username(),
        "looked_at": look and look.at,
    }

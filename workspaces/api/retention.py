"""Retention of the caller's team: rules, what goes next, sweeps and holds."""

from datetime import datetime

from django.shortcuts import get_object_or_404
from ninja import Router, Status
from pydantic import Field

from dashboard.problems import conflict, not_found
from dashboard.web.api_base import PROBLEMS
from dashboard.web.pages import as_uuid
from workspaces.api import schemas
from workspaces.api.lookup import find, team_for
from workspaces.changes import history
from workspaces.models import Hold, Operation
from workspaces.services import retention
from workspaces.services.retention import confirming, holds, sweeps
from workspaces.services.retention.layers import COUNTS, Terms
from workspaces.services.retention.preview import Preview, sweep_on
from workspaces.services.retention.sweeping import full_name

router = Router(tags=["retention"])
NAMES_SHOWN = 1000  # items of one layer in a preview


class RuleIn(schemas.Strict):
    """A rule of the team. `days: null` keeps for ever; layers whose `unit` is hours take `hours` in place of days."""

    layer: str = Field(max_length=40)
    environment: str = Field("", max_length=80)
    days: int | None = Field(None, ge=0, le=36_500)
    hours: int | None = Field(None, ge=1, le=8_760)
    keep_newest: int = Field(0, ge=0, le=1_000_000)
    keep_daily: int = Field(0, ge=0, le=1_000_000)
    keep_weekly: int = Field(0, ge=0, le=1_000_000)
    keep_monthly: int = Field(0, ge=0, le=1_000_000)


class RulesIn(schemas.Strict):
    """All of the team's own rules; a layer without one follows its default. `confirm` is from the preview of these."""

    rules: list[RuleIn] = Field(max_length=1000)
    confirm: str = Field("", max_length=64)


class NewSweep(schemas.Strict):
    dry_run: bool = False


class PutOff(schemas.Strict):
    days: int = Field(ge=1, le=365)
    reason: str = Field("", max_length=500)


class NewHold(schemas.Strict):
    """A hold on a snapshot of a workspace, on a workspace, or without either on the whole team."""

    reason: str = Field(min_length=1, max_length=500)
    until: datetime | None = None
    workspace: str | None = Field(None, max_length=64)
    snapshot: int | None = Field(None, ge=1, le=2**31 - 1)


@router.get("/retention", response={200: dict} | PROBLEMS)
def show(request):
    """Return the rules in force, each with its `source` (default, team or environment), and when the next sweep is.

    `late_since` is when the last complete sweep ended, if that is more than two days ago.
    """
    team = team_for(request, "read")
    rules = retention.Rules.of(team)
    late = next((since for _, since in sweeps.late([team.pk])), None)
    told = {"rules": [_rule(one) for one in rules.all_in_force()], "next_sweep": retention.next_sweep()}
    return Status(200, told | {"late_since": late})


def _rule(found) -> dict:
    layer, counts = found.layer, {f"keep_{count}": getattr(found.terms, count) for count in COUNTS}
    told = {"layer": layer.name, "label": layer.label, "environment": found.environment, "source": found.source}
    return (
        told
        | {"covers": layer.covers, "unit": layer.unit, "days": found.terms.days, "hours": found.terms.hours}
        | counts
    )


@router.put("/retention", response={200: dict} | PROBLEMS)
def save(request, wish: RulesIn):
    """Replace the team's own rules. Rules that delete something are saved only with the `confirm` of their preview."""
    team = team_for(request, "manage_retention")
    proposal = confirming.propose(team, _changes(team, wish.rules))
    if proposal.needs_confirmation and wish.confirm != proposal.digest:
        told = {"preview": _shown(proposal.preview), "confirm": proposal.digest}
        raise conflict("These rules delete what the preview names. Send them with this `confirm` to save them.", **told)
    confirming.save(team, proposal, by=request.auth.actor)
    return show(request)


def _changes(team, rules: list[RuleIn]) -> confirming.Changes:
    wanted = {(rule.environment, rule.layer): _terms(rule) for rule in rules}
    return {key: wanted.get(key) for key in retention.Rules.of(team).own.keys() | wanted.keys()}


def _terms(rule: RuleIn) -> Terms:
    return Terms(rule.days, *(getattr(rule, f"keep_{count}") for count in COUNTS), hours=rule.hours)


@router.get("/retention/preview", response={200: dict} | PROBLEMS)
def preview(request, on: str = ""):
    """Return what the next sweep deletes under the saved rules, by name and date, and what that frees.

    `on` (YYYY-MM-DD): what sweeps delete until the one of that day, if nothing is used or made until then.
    """
    team = team_for(request, "read")
    return Status(200, _shown(retention.preview(team, at=sweep_on(on) if on else None)))


@router.post("/retention/preview", response={200: dict} | PROBLEMS)
def propose(request, wish: RulesIn):
    """Return what the next sweep would delete under other rules, and the `confirm` with which they can be saved."""
    team = team_for(request, "manage_retention")
    proposal = confirming.propose(team, _changes(team, wish.rules))
    return Status(200, _shown(proposal.preview) | {"confirm": proposal.digest})


def _shown(found: Preview) -> dict:
    return {
        "at": found.at.isoformat(),
        "says": str(found),
        "frees": None
        if found.forecast is None
        else {
            "at_collection": found.forecast.freed,
            "later": found.forecast.waiting,
            "held": found.forecast.held,
        },
        "warns": found.to_warn,
        "layers": [
            {
                "layer": part.layer.name,
                "count": len(part.items),
                "held": part.held,
                "compared": [full_name(item) for item in part.compared[:NAMES_SHOWN]],
                "items": [
                    {"name": item.name, "workspace": item.workspace or None, "date": item.at.isoformat()}
                    for item in part.items[:NAMES_SHOWN]
                ],
            }
            for part in found.parts
        ],
    }


@router.get("/retention/sweeps", response={200: dict} | PROBLEMS)
def list_sweeps(request):
    """Return the last sweeps, the newest first, with their progress and reports."""
    return Status(200, {"sweeps": [_sweep(row) for row in sweeps.of_team(team_for(request, "read"))]})


@router.post("/retention/sweeps", response={202: dict} | PROBLEMS)
def run(request, wish: NewSweep = None):
    """Sweep now, or with `dry_run` report what a sweep would delete now."""
    team = team_for(request, "manage_retention")
    return Status(202, _sweep(sweeps.request(team, by=request.auth.actor, dry_run=bool(wish and wish.dry_run))))


@router.post("/retention/sweeps/stop", response={202: dict} | PROBLEMS)
def stop(request):
    """Stop the sweep in progress after its current batch; the rest is due at the next one."""
    return Status(202, _sweep(sweeps.stop(team_for(request, "manage_retention"), by=request.auth.actor)))


@router.post("/retention/sweeps/put-off", response={201: dict} | PROBLEMS)
def put_off(request, wish: PutOff):
    """Put off all sweeps of the team for some days: a hold on the whole team, which can be released."""
    team = team_for(request, "manage_retention")
    return Status(201, _hold_out(sweeps.put_off(team, wish.days, by=request.auth.actor, reason=wish.reason)))


def _sweep(row: Operation) -> dict:
    return {
        "id": str(row.pk),
        "phase": row.phase,
        "dry_run": row.args["dry_run"],
        "by": row.by.get("label", ""),
        "progress": row.progress,
        "report": row.outcome,
        "asked_at": row.created_at,
        "started_at": row.started_at,
        "ended_at": row.settled_at,
        "cancelled_at": row.cancelled_at,
    }


@router.get("/retention/holds", response={200: dict} | PROBLEMS)
def list_holds(request):
    """Return the holds in force, the newest first."""
    rows = Hold.objects.active().filter(team=team_for(request, "read")).select_related("team", "workspace", "snapshot")
    return Status(200, {"holds": [_hold_out(row) for row in rows.order_by("-created_at")]})


@router.post("/retention/holds", response={201: dict} | PROBLEMS)
def hold(request, wish: NewHold):
    """Hold a snapshot, a workspace or the whole team: nothing deletes it until the end, or until it is released."""
    team = team_for(request, "hold")
    workspace = find(request, wish.workspace) if wish.workspace else None
    if wish.snapshot and workspace is None:
        raise not_found("snapshot")
    snapshot = history.find_snapshot(workspace, wish.snapshot) if wish.snapshot else None
    what = {"workspace": workspace, "snapshot": snapshot}
    return Status(201, _hold_out(holds.hold(team, reason=wish.reason, until=wish.until, by=request.auth.actor, **what)))


@router.delete("/retention/holds/{hold_id}", response={202: dict} | PROBLEMS)
def release(request, hold_id: str):
    """Release a hold."""
    row = get_object_or_404(Hold.objects.visible_to(request.auth).select_related("team"), pk=as_uuid(hold_id))
    holds.release(row, by=_may_hold(request))
    row.refresh_from_db()
    return Status(202, _hold_out(row))


def _may_hold(request):
    team_for(request, "hold")
    return request.auth.actor


def _hold_out(row: Hold) -> dict:
    return {
        "id": str(row.pk),
        "what": row.what,
        "workspace": row.workspace.key if row.workspace_id else None,
        "snapshot": row.snapshot.number if row.snapshot_id else None,
        "reason": row.reason,
        "until": row.until,
        "by": row.by.get("label", ""),
        "created_at": row.created_at,
        "released_at": row.released_at,
    }

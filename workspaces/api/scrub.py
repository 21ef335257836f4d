"""Search everything of the caller's team for a value, purge it, and read the receipts. No answer has the value."""

from uuid import UUID

from ninja import Router, Status
from pydantic import Field

from dashboard.models import Team
from dashboard.problems import conflict, not_allowed
from dashboard.web.api_base import PROBLEMS
from dashboard.web.lookup import find
from workspaces.api import schemas
from workspaces.api.lookup import team_of
from workspaces.models import Operation, PurgeReceipt
from workspaces.secrets import VALUE_BYTES
from workspaces.services.scrub import asking, receipts

router = Router(tags=["scrub"])


class SearchIn(schemas.Strict):
    value: str = Field(max_length=VALUE_BYTES)


class PurgeIn(schemas.Strict):
    """The value again, since it is stored nowhere, and the ids of the snapshots to delete, from the search."""

    value: str = Field(max_length=VALUE_BYTES)
    reason: str = Field(min_length=1, max_length=asking.MAX_REASON)
    snapshots: list[UUID] = Field([], max_length=10_000)
    past_holds: bool = Field(False, description="delete these snapshots even if they are on hold")


def _team(request) -> Team:
    """Return the team of the token. Problem 403 if it may not search and purge."""
    team = team_of(request)
    if not request.auth.can("purge", team):
        raise not_allowed("You don't have permission to do this.")
    return team


def _shown(row: Operation) -> dict:
    return {
        "id": str(row.pk),
        "kind": "search" if row.kind == asking.SEARCH else "purge",
        "keyed_hash": row.args["keyed_hash"],
        "phase": row.phase,
        "progress": row.progress,
        "outcome": row.outcome,
        "by": row.by.get("label", ""),
        "asked_at": row.created_at,
        "ended_at": row.settled_at,
    }


@router.get("/scrubs", response={200: dict} | PROBLEMS)
def list_scrubs(request):
    """Return the last searches and purges, the newest first, without their places."""
    team = _team(request)
    rows = sorted([*asking.of_team(team), *asking.purges_of(team)], key=lambda row: row.created_at, reverse=True)
    return Status(200, {"scrubs": [_shown(row) | {"outcome": _short(row.outcome)} for row in rows]})


def _short(outcome: dict | None) -> dict | None:
    return outcome and {name: value for name, value in outcome.items() if name not in ("places", "not_searched")}


@router.post("/scrubs", response={202: dict} | PROBLEMS)
def search(request, wish: SearchIn):
    """Search everything that is kept for the team for a value; `GET /scrubs/{id}` tells the progress and the places."""
    return Status(202, _shown(asking.search(_team(request), wish.value, by=request.auth.actor)))


@router.get("/scrubs/{scrub_id}", response={200: dict} | PROBLEMS)
def show_scrub(request, scrub_id: UUID):
    """Return a search or a purge with its progress, and once it is over its outcome: places, or the receipt's id."""
    return Status(200, _shown(_scrub_or_404(request, scrub_id)))


@router.post("/scrubs/{scrub_id}/purge", response={202: dict} | PROBLEMS)
def purge(request, scrub_id: UUID, wish: PurgeIn):
    """Purge the value that a search looked for. What was removed, and what could not be, is in the receipt."""
    found = find(asking.of_team(_team(request)).select_related("team"), scrub_id, "search")
    how = {"snapshots": [str(pk) for pk in wish.snapshots], "past_holds": wish.past_holds, "reason": wish.reason}
    return Status(202, _shown(asking.purge(found, wish.value, **how, by=request.auth.actor)))


@router.post("/scrubs/{scrub_id}/stop", response={202: dict} | PROBLEMS)
def stop(request, scrub_id: UUID):
    """Stop a search or a purge. What was purged before stays purged."""
    row = _scrub_or_404(request, scrub_id)
    if not asking.stop(row):
        raise conflict("It has ended or is already stopping.")
    row.refresh_from_db()
    return Status(202, _shown(row))


@router.get("/purges", response={200: dict} | PROBLEMS)
def list_receipts(request):
    """Return the receipts of the team's purges, the newest first."""
    rows = asking.receipts_of(_team(request))
    shown = [
        {"id": str(row.pk), "sha256": row.sha256, "at": row.created_at, "reason": row.body["reason"]} for row in rows
    ]
    return Status(200, {"receipts": shown})


@router.get("/purges/{receipt_id}", response={200: dict} | PROBLEMS)
def show_receipt(request, receipt_id: UUID):
    """Return one receipt with its SHA-256, its signature and the public key that belongs to it."""
    rows = PurgeReceipt.objects.filter(team=_team(request))
    return Status(200, receipts.as_download(find(rows, receipt_id, "receipt")))


def _scrub_or_404(request, pk: UUID) -> Operation:
    rows = Operation.objects.filter(team=_team(request), kind__in=(asking.SEARCH, asking.PURGE))
    return find(rows, pk, "search or purge")

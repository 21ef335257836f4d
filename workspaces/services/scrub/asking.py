"""Ask the runner to search for a value, or to purge it; and the searches and receipts of a team."""

import json
import uuid

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from dashboard.database import clock
from dashboard.models import Actor, Event, Team
from dashboard.problems import conflict, invalid
from workspaces import operations
from workspaces.host import leads
from workspaces.models import Operation, Phase, PurgeReceipt, Runner, StoreIdentity
from workspaces.operations import runner_client
from workspaces.services.scrub.places import SNAPSHOT
from workspaces.services.scrub.value import Wanted

SEARCH, PURGE = "scrub", "scrub_purge"
ON_HOST = "scrub_on_host"  # the part of either that another host does
VERBS = {SEARCH: "data.scrub_asked", PURGE: "data.purge_asked"}
KEPT = 10  # searches of a team that are kept, and purges
MAX_REASON = 500


def of_team(team) -> QuerySet:
    """Return the team's searches, the newest first."""
    return Operation.objects.filter(team=team, kind=SEARCH).order_by("-created_at")


def purges_of(team) -> QuerySet:
    return Operation.objects.filter(team=team, kind=PURGE).order_by("-created_at")


def receipts_of(team) -> QuerySet:
    return PurgeReceipt.objects.filter(team=team).order_by("-created_at")


def search(team, value: str, *, by: Actor) -> Operation:
    """Start a search. Problem 422 for a value that is too short or too long, 409 while one is in progress."""
    return _ask(team, Wanted(value), value, SEARCH, {}, by)


def purge(found: Operation, value: str, *, snapshots: list[str], past_holds: bool, reason: str, by: Actor) -> Operation:
    """Start a purge of what a search found. `snapshots`: the ids of those to delete, from the search.

    Problem 422 for another value, an unknown snapshot, or no reason; 409 before the search has ended.
    """
    if found.outcome is None or not found.outcome.get("ok"):
        raise conflict("The search has not ended, or found nothing to tell. Search again.")
    wanted, reason = Wanted(value), reason.strip()
    if wanted.fingerprint != found.args["keyed_hash"]:
        raise invalid("This isn't the value that was searched for.")
    if not reason or len(reason) > MAX_REASON:
        raise invalid(f"Give a reason of at most {MAX_REASON} characters.")
    known = {place["pk"] for place in found.outcome["places"] if place["kind"] == SNAPSHOT}
    if not set(snapshots) <= known:
        raise invalid("Name only snapshots that the search found.")
    args = {"snapshots": sorted(snapshots), "past_holds": past_holds, "reason": wanted.out_of(reason)}
    return _ask(found.team, wanted, value, PURGE, args, by)


def _ask(team, wanted: Wanted, value: str, kind: str, args: dict, by: Actor) -> Operation:
    if Operation.objects.open().filter(team=team, kind__in=[SEARCH, PURGE]).exists():
        raise conflict("A search or a purge is already in progress.")
    asked = {"value": value, "kind": kind, "args": args | {"keyed_hash": wanted.fingerprint}, "by": by.as_json}
    store_host = StoreIdentity.objects.filter(team=team).values_list("host", flat=True).first()
    lead = leads.of_team(store_host or "")
    told = runner_client.ask_runner("POST", lead, f"/teams/{team.pk}/scrub", body=json.dumps(asked).encode())
    return Operation.objects.get(pk=told["operation"])


def record(pk: uuid.UUID, team: Team, runner: Runner, kind: str, args: dict, by: Actor) -> Operation:
    """Create the operation on the host whose memory has the value. Only the runner calls this."""
    try:
        with transaction.atomic():
            operation = Operation.objects.create(
                pk=pk, team=team, runner=runner, kind=kind, args=args, due_at=clock.now(), by=by.as_json
            )
            if verb := VERBS.get(kind):
                data = {"keyed_hash": args["keyed_hash"], "reason": args.get("reason", "")}
                Event.objects.record(team, actor=by, verb=verb, subject=team, data=data)
    except IntegrityError:
        raise conflict("A search or a purge is already in progress.") from None
    operations.wake_runner()
    return operation


def stop(operation: Operation) -> bool:
    """Ask a search or a purge to stop; False if it is over or stopping. What was purged stays purged."""
    return operations.request_cancel(operation)


def forget_old(team):
    """Delete the team's searches and purges beyond the newest; receipts stay."""
    for rows in (of_team(team), purges_of(team)):
        Operation.objects.filter(pk__in=list(rows.values_list("pk", flat=True)[KEPT:])).delete()
    Operation.objects.filter(team=team, kind=ON_HOST, phase=Phase.SETTLED).delete()  # whose search was killed

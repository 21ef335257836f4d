"""Have the other hosts search, or purge, what only they have: files of live workspaces, and what programs printed."""

import asyncio
import json

from dashboard.problems import Problem
from workspaces import operations
from workspaces.host import leads
from workspaces.models import Operation, Runner
from workspaces.operations import runner_client
from workspaces.services.scrub.asking import ON_HOST
from workspaces.services.scrub.places import Place
from workspaces.services.scrub.value import Wanted

LOOK_EVERY_S = 0.5
ASKED_WITHIN_S = 30.0
NOT_SEARCHED = "files of live workspaces on {host}, and what programs printed there: {why}"


async def on_other_hosts(job, team, wanted: Wanted, *, purge: bool, tick) -> tuple[list[Place], list[str]]:
    """Ask one host after the other. Return the places that they found, and what was not searched, in words.

    `tick` may raise to stop; the host that works then is stopped too.
    """
    places: list[Place] = []
    not_searched: list[str] = []
    for row in await job.thread(_other_hosts, job.daemon.row):
        try:
            outcome = await _outcome_of(job, team, wanted, row, purge=purge, tick=tick)
        except Problem as problem:
            not_searched.append(NOT_SEARCHED.format(host=row.host, why=problem.detail.rstrip(".")))
            continue
        found = [Place(**(place | {"paths": tuple(place["paths"])})) for place in outcome["places"]]
        if more := outcome["total"] - len(found):
            not_searched.append(
                f"{more} more places on {row.host}, beyond those that are named: search again after a purge"
            )
        places += found
        not_searched += outcome["not_searched"]
    return places, not_searched


def _other_hosts(own: Runner) -> list[Runner]:
    return list(Runner.objects.members().exclude(pk=own.pk).exclude(heartbeat_at=None).order_by("host"))


async def _outcome_of(job, team, wanted: Wanted, row: Runner, *, purge: bool, tick) -> dict:
    """Return the outcome of a host's part. Problem 503 if it cannot be asked, or ends without one."""
    pk = await job.thread(_ask, row, team, job, wanted, purge)
    try:
        while (outcome := await job.thread(_ended, pk, row)) is None:
            tick()
            await asyncio.sleep(LOOK_EVERY_S)
    except BaseException:
        await job.thread(operations.request_cancel, Operation(pk=pk))
        raise
    await job.thread(Operation.objects.filter(pk=pk).delete)
    if not outcome["ok"]:
        raise Problem(503, outcome.get("reason") or "it ended without an answer")
    return outcome


def _ask(row: Runner, team, job, wanted: Wanted, purge: bool) -> str:
    if not row.address:
        raise Problem(503, "it has no HANDRAIL_RUNNER_ADDRESS")
    # Nobody goes on with the part of a host that went away, and a team has one part at a time.
    Operation.objects.open().filter(team=team, kind=ON_HOST).exclude(runner__in=Runner.objects.alive()).delete()
    args = {"keyed_hash": wanted.fingerprint, "purge": purge}
    asked = {"value": wanted.value, "kind": ON_HOST, "args": args, "by": job.by.as_json}
    lead, body = leads.of_row(row), json.dumps(asked).encode()
    path = f"/teams/{team.pk}/scrub"
    return runner_client.ask_runner("POST", lead, path, body=body, timeout=ASKED_WITHIN_S)["operation"]


def _ended(pk: str, row: Runner) -> dict | None:
    """Return the outcome of the operation; None while it works. Problem 503 once its host does not answer."""
    outcome = Operation.objects.values_list("outcome", flat=True).get(pk=pk)
    if outcome is None and not Runner.objects.alive().filter(pk=row.pk).exists():
        raise Problem(503, "it stopped answering meanwhile")
    return outcome

"""Check open Runs with their drivers: end those that died, mark unreachable ones, retake missing end snapshots."""

import logging
from datetime import timedelta

from dashboard.database import clock
from dashboard.models import Actor, Event, Team
from workspaces import lifecycle, operations
from workspaces.drivers.base import BackendLost, DriverError
from workspaces.models import EndCode, Operation, State, StateCode, Workspace
from workspaces.runner.reconcile import folders, services

logger = logging.getLogger("handrail.runner")
UNREACHABLE = "The workspace can't be reached, so it is not known whether its programs run. Its files are unchanged."
GOES_ON = "Its programs go on. It is paused, stopped or deleted once that answers."
SYSTEM = Actor.system("runner")
LOOK_S, LOOKS = 2.0, 10  # seconds between two looks, and how many of them one call of a thread makes while all is quiet
MAX_RETRY_PAUSE_S = 60  # the longest pause between two attempts to end a dead Run
LOST = (StateCode.UNREACHABLE, StateCode.BACKEND_LOST)


async def watch(daemon):
    """Check every open Run of this host once: end dead ones, tend the network of live ones, keep services up.

    Connected folders are looked at as well, with a Run or without.
    """
    gone = await daemon.thread(_wait_for_work, daemon)
    runs = daemon.up.runs
    await daemon.network.prune({str(run.pk) for run in runs})
    for workspace, words in gone.items():
        await daemon.thread(set_reason, workspace, words, StateCode.HELD_UP if words else "")
        daemon.up.forget()
    await check_all(daemon)
    if any(run.workspace.environment.services for run in runs):
        await daemon.thread(services.keep_up, daemon.row)


def _wait_for_work(daemon) -> dict:
    """Look at the connected folders and the host's marks; return the folders that are away or back.

    While there is none, and all that runs is seen to live, this goes on for a while: a thread that sleeps costs less
    than one that the loop calls every few seconds.
    """
    for _ in range(LOOKS):
        daemon.up.read()
        daemon.probes.check_marks()
        gone = folders.away(daemon.up.folders, daemon.devices)
        if gone or not (daemon.watched.is_set() and daemon.up.is_quiet() and daemon.up.rest(LOOK_S)):
            return gone
    return {}


async def check_all(daemon):
    """Check each open Run of this host; one whose check breaks down keeps no other from being checked."""
    looked_at = {}
    for driver, run, owner in await daemon.up.owned():
        try:
            if driver.name not in looked_at:
                looked_at[driver.name] = await _probe_backend(driver)
            await _check(daemon, driver, run, owner, *looked_at[driver.name])
        except Exception:
            logger.exception("the run %s could not be checked", run.pk)


async def _probe_backend(driver) -> tuple[str, dict]:
    """Return (why the driver's backend does not answer, the Runs that somebody holds up: {run id: sentence})."""
    try:
        return "", dict(await driver.held_up())
    except BackendLost as error:
        return str(error), {}
    except DriverError as error:
        logger.warning("%s cannot say which programs stand still: %s", driver.name, error)
        return "", {}


async def _check(daemon, driver, run, owner, lost: str, held_up: dict):
    try:
        dead = owner is None or not await driver.alive(owner)
    except DriverError as error:  # the driver does not answer: unreachable is not dead
        await _note(daemon, run, f"{error} {UNREACHABLE}", StateCode.UNREACHABLE)
        return
    if dead:
        await daemon.thread(_close_dead, run, driver)
        return
    if lost:
        await _note(daemon, run, f"{lost} {GOES_ON}", StateCode.BACKEND_LOST)
    elif words := held_up.get(str(run.pk)):
        await _note(daemon, run, words, StateCode.HELD_UP)
    elif (
        not run.workspace.environment.capabilities.own_folder and run.workspace.reason_code in StateCode.out_of_reach()
    ):
        await _note(daemon, run, "")
    await daemon.network.tend(run, owner)


async def _note(daemon, run, words: str, code: str = ""):
    await daemon.thread(set_reason, run.workspace, words, code)
    daemon.up.forget()


def _close_dead(run, driver):
    """Have a dead Run ended, unless an operation that was asked for is about to end it."""
    ends = Operation.objects.open().filter(workspace=run.workspace, kind__in=[*lifecycle.ENDS_ON_REQUEST])
    if not ends.exists():
        request_close(run.workspace, str(run.pk), ended_by_backend(run, driver))


def ended_by_backend(run, driver) -> tuple | None:
    """Return (code, message) if the Run died while the driver's backend did not answer, else None."""
    # Another host may have marked it while this one was away (other_hosts), which says nothing of the backend.
    is_noted_here = run.workspace.reason.endswith((UNREACHABLE, GOES_ON))
    if not driver.capabilities.backend or run.workspace.reason_code not in LOST or not is_noted_here:
        return None
    noted = Event.objects.filter(workspace_id=run.workspace_id, verb="workspace.unreachable").order_by("-seq").first()
    at = f" at {clock.in_utc(noted.at)}" if noted is not None else ""
    return EndCode.BACKEND_LOST, f"The {driver.capabilities.backend} was stopped{at} and ended its {driver.unit}s."


def request_close(workspace, what: str, why: tuple | None = None):
    """Submit an `ended` operation; after a failed one again, with a pause from two seconds that doubles to a minute.

    `what` identifies the Run for deduplication: one operation at a time. A retry keeps the reason that the first
    attempt found, because it may otherwise see the effects of that attempt. `why`: (code, message) if it is known.
    """
    asked = Operation.objects.filter(workspace=workspace, dedupe__startswith=f"ended:{what}")
    tries, last = asked.count(), asked.order_by("created_at").last()
    pause = timedelta(seconds=min(2**tries, MAX_RETRY_PAUSE_S))
    if last is not None and not (operations.is_over(last) and clock.now() - last.settled_at >= pause):
        return
    args = {"why": last.progress.get("why") or last.args.get("why")} if last is not None else {}
    args = args or ({"why": list(why)} if why else {})
    dedupe, kind = f"ended:{what}:{tries + 1}", "ended"
    operations.submit(kind, workspace=workspace, by=SYSTEM, args=args, exclusive=True, dedupe=dedupe)


def set_reason(workspace, words: str, code: str = ""):
    """Set or, with "", clear the reason why a workspace cannot be reached. Record an event if the code changes."""
    rows = Workspace.objects.filter(pk=workspace.pk, state=State.READY)
    rows = rows.exclude(reason=words) if words else rows.filter(reason_code__in=StateCode.out_of_reach())
    was = rows.values_list("reason_code", flat=True).first()
    if was is None:
        return
    with Team.objects.turn(workspace.team_id):
        if rows.update(reason=words, reason_code=code) and was != code:
            verb = "workspace.unreachable" if words else "workspace.reachable"
            lifecycle.record(workspace, SYSTEM, verb, {"reason": words[:1000]})


def without_end_snapshot(runner):
    """Return the runner's workspaces at rest whose last run still has no end snapshot."""
    at_rest = Workspace.objects.filter(runner=runner, state__in=[State.PAUSED, State.STOPPED], purged_at=None)
    return at_rest.exclude(missing_snapshot="")


def request_missing_snapshots(runner):
    """Submit missing end snapshots again, at most once a minute for each workspace."""
    minute = int(clock.now().timestamp() // 60)
    for workspace in without_end_snapshot(runner):
        operations.submit(
            "snapshot",
            workspace=workspace,
            by=SYSTEM,
            args={"kind": "end", "label": "files of the last run"},
            exclusive=True,
            dedupe=f"missing-snapshot:{workspace.pk}:{minute}",
        )

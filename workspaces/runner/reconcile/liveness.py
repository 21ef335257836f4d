"""Check open Runs with their drivers: end those that died, mark unreachable ones, retake missing end snapshots."""

from datetime import timedelta

from dashboard import clock
from dashboard.models import Actor, Team
from workspaces import lifecycle, operations
from workspaces.drivers.base import DriverError
from workspaces.models import Operation, Run, State, StateCode, Workspace
from workspaces.runner.reconcile import services

UNREACHABLE = "It can't be reached. Nothing is lost and nothing was changed."
SYSTEM = Actor.system("runner")
MAX_RETRY_PAUSE_S = 60  # the longest pause between two attempts to end a dead Run


async def watch(daemon):
    """Check every open Run of this host once: end dead ones, tend the network of live ones, keep services up."""
    rows = Run.objects.filter(ended_at=None, runner=daemon.row, ready_at__isnull=False)
    runs = await daemon.thread(lambda: list(rows.select_related("workspace__environment", "workspace__team")))
    await daemon.network.prune({str(run.pk) for run in runs})
    if not runs:
        return
    for driver, run, owner in await daemon.with_owners(runs):
        try:
            dead = owner is None or not await driver.alive(owner)
        except DriverError as error:
            await daemon.thread(_note_unreachable, run, f"{UNREACHABLE} {error}")
            continue  # the driver does not answer: unreachable is not dead
        if run.workspace.reason_code == StateCode.UNREACHABLE:
            await daemon.thread(_note_unreachable, run, "")
        if dead:
            await daemon.thread(request_close, run.workspace, str(run.pk))
        else:
            await daemon.network.tend(run, owner)
    await daemon.thread(services.keep_up, daemon.row)


def request_close(workspace, what: str):
    """Submit an `ended` operation; after a failed one again, with a pause from two seconds that doubles to a minute.

    `what` identifies the Run for deduplication: one operation at a time. A retry keeps the reason that the first
    attempt found, because it may otherwise see the effects of that attempt.
    """
    asked = Operation.objects.filter(workspace=workspace, dedupe__startswith=f"ended:{what}")
    tries, last = asked.count(), asked.order_by("created_at").last()
    pause = timedelta(seconds=min(2**tries, MAX_RETRY_PAUSE_S))
    if last is not None and not (operations.is_over(last) and clock.now() - last.settled_at >= pause):
        return
    args = {"why": last.progress.get("why") or last.args.get("why")} if last is not None else {}
    dedupe, kind = f"ended:{what}:{tries + 1}", "ended"
    operations.submit(kind, workspace=workspace, by=SYSTEM, args=args, exclusive=True, dedupe=dedupe)


def _note_unreachable(run, words: str):
    """Set or, with "", clear the reason why a workspace cannot be reached. Record an event only on a change."""
    rows = Workspace.objects.filter(pk=run.workspace_id, state=State.READY)
    rows = rows.exclude(reason=words) if words else rows.filter(reason_code=StateCode.UNREACHABLE)
    with Team.objects.turn(run.workspace.team_id):
        if rows.update(reason=words, reason_code=StateCode.UNREACHABLE if words else ""):
            verb = "workspace.unreachable" if words else "workspace.reachable"
            lifecycle.record(run.workspace, SYSTEM, verb, {"reason": words[:1000]})


def request_missing_snapshots(runner):
    """Submit missing end snapshots again, at most once a minute for each workspace."""
    at_rest = Workspace.objects.filter(runner=runner, state__in=[State.PAUSED, State.STOPPED], purged_at=None)
    minute = int(clock.now().timestamp() // 60)
    for workspace in at_rest.exclude(missing_snapshot=""):
        operations.submit(
            "snapshot",
            workspace=workspace,
            by=SYSTEM,
            args={"kind": "end", "label": "files of the last run"},
            exclusive=True,
            dedupe=f"missing-snapshot:{workspace.pk}:{minute}",
        )

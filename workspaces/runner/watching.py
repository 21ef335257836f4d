"""What is up, as its drivers tell: what died by itself is ended, what cannot be reached is named, debts are paid."""

from datetime import timedelta

from django.db import transaction

from dashboard import clock
from dashboard.models import Actor
from workspaces import effects, lifecycle
from workspaces.drivers.base import DriverError
from workspaces.models import Effect, Run, State, Workspace
from workspaces.runner import services

UNREACHABLE = "It cannot be reached now; nothing is lost, and it is left as it is."
SYSTEM = Actor.system("runner")
SLOWEST = 60  # seconds between two tries to end what is over


async def watch(daemon):
    """Runs that died by themselves: leave a snapshot, and say why."""
    rows = Run.objects.filter(ended_at=None, runner=daemon.row, ready_at__isnull=False)
    runs = await daemon.thread(lambda: list(rows.select_related("workspace__environment", "workspace__team")))
    await daemon.network.prune({str(run.pk) for run in runs})
    for driver, run, owner in await daemon.with_owners(runs):
        try:
            dead = owner is None or not await driver.alive(owner)
        except DriverError as error:
            await daemon.thread(_note_unreachable, run, f"{UNREACHABLE} {error}")
            continue  # this host cannot tell: unreachable is not gone
        if run.workspace.reason.startswith(UNREACHABLE):
            await daemon.thread(_note_unreachable, run, "")
        if dead:
            await daemon.thread(ask_end, run.workspace, str(run.pk))
        else:
            await daemon.network.tend(run, owner)
    await daemon.thread(services.keep_up, daemon.row)


def ask_end(workspace, what: str):
    """Ask for the end of what is over; where that failed, again after two seconds, then four, up to a minute.

    `what` names it, so that it is asked for once at a time. Why it ended is what the first look saw: later ones may see
    what the first try has done.
    """
    asked = Effect.objects.filter(workspace=workspace, dedupe__startswith=f"ended:{what}")
    tries, last = asked.count(), asked.order_by("created_at").last()
    pause = timedelta(seconds=min(2**tries, SLOWEST))
    if last is not None and not (effects.is_over(last) and clock.now() - last.settled_at >= pause):
        return
    args = {"reason": last.progress.get("reason") or last.args.get("reason")} if last is not None else {}
    dedupe, kind = f"ended:{what}:{tries + 1}", f"{lifecycle.KINDS}.ended"
    effects.submit(kind, workspace=workspace, by=SYSTEM, args=args, exclusive=True, dedupe=dedupe)


def _note_unreachable(run, words: str):
    """Say on the workspace why nobody can tell how it is; "" once somebody can again. Each is said once."""
    rows = Workspace.objects.filter(pk=run.workspace_id, state=State.READY)
    rows = rows.exclude(reason=words) if words else rows.filter(reason__startswith=UNREACHABLE)
    with transaction.atomic():
        if rows.update(reason=words):
            verb = "workspace.unreachable" if words else "workspace.reachable"
            lifecycle.record(run.workspace, SYSTEM, verb, {"reason": words[:1000]})


def ask_for_what_is_owed(runner):
    """Snapshots at an end that could not be taken then: again, once a minute."""
    at_rest = Workspace.objects.filter(runner=runner, state__in=[State.PAUSED, State.STOPPED], purged_at=None)
    minute = int(clock.now().timestamp() // 60)
    for workspace in at_rest.exclude(owed=""):
        effects.submit(
            f"{lifecycle.KINDS}.snapshot",
            workspace=workspace,
            by=SYSTEM,
            args={"kind": "end", "label": "owed since its end"},
            exclusive=True,
            dedupe=f"owed:{workspace.pk}:{minute}",
        )

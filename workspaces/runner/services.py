"""Services: programs that an environment wants to be there whenever a workspace of it is up.

A service is a command like any other, with its output kept; it is asked for again when it fails, after a pause that
doubles from one second to a minute. One that ends with 0 has done its work until the next start.
"""

from datetime import timedelta

from dashboard import clock
from dashboard.models import Actor
from workspaces import effects, programs
from workspaces.models import Command, Effect, Run, State

LONGEST_PAUSE = 60.0
STEADY = timedelta(seconds=60)  # one that ran for so long begins with a short pause again
REMEMBERED = 8  # ends that are looked at: enough for the longest pause
SERVICES = Actor.system("services")


def keep_up(runner):
    """Ask for every service that should run and does not."""
    busy = Effect.objects.open().filter(exclusive=True, workspace__runner=runner).values("workspace")
    up = Run.objects.filter(runner=runner, ended_at=None, ready_at__isnull=False, workspace__state=State.READY)
    for run in up.exclude(workspace__in=busy).select_related("workspace__environment", "workspace__team"):
        if run.workspace.vitals.get("frozen") or run.workspace.team.stopped_at:
            continue
        for name in run.workspace.environment.services:
            if _is_due(run, name):
                programs.start_service(run.workspace, run, name, by=SERVICES)


def _is_due(run, name: str) -> bool:
    ran = list(
        Command.objects.filter(run=run, service=name).select_related("effect").order_by("-created_at")[:REMEMBERED]
    )
    if not ran:
        return True
    last = ran[0]
    if not effects.is_over(last.effect) or last.cancelled_at or last.exit_status == 0:
        return False
    return clock.now() - (last.ended_at or last.created_at) >= timedelta(seconds=pause_after(ran))


def pause_after(ran: list[Command]) -> float:
    """Seconds to wait after these ends, newest first."""
    failures = 0
    for command in ran:
        if command.started_at and command.ended_at and command.ended_at - command.started_at > STEADY:
            break
        failures += 1
    return min(2.0 ** max(failures - 1, 0), LONGEST_PAUSE)

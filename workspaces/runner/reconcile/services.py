"""Services: programs that run whenever a workspace of their environment is up.

A service is a command like any other, and its output is kept. After a failure it is restarted, with a pause that
doubles from one second to a minute. One that exits with 0 is not restarted until the workspace's next start.
"""

from datetime import timedelta

from dashboard.database import clock
from dashboard.models import Actor
from workspaces import operations
from workspaces.models import Command, Operation, Run, State, StateCode
from workspaces.services import commands

LONGEST_PAUSE = 60.0
STEADY = timedelta(seconds=60)  # a run longer than this resets the pause
REMEMBERED = 8  # past runs considered: enough to reach the longest pause
SERVICES = Actor.system("services")


def keep_up(runner):
    """Start every service that should run and does not."""
    busy = Operation.objects.open().filter(exclusive=True, workspace__runner=runner).values("workspace")
    up = Run.objects.filter(runner=runner, ended_at=None, ready_at__isnull=False, workspace__state=State.READY)
    up = up.exclude(workspace__reason_code__in=[StateCode.UNREACHABLE, StateCode.HELD_UP])
    for run in up.exclude(workspace__in=busy).select_related("workspace__environment", "workspace__team"):
        if run.workspace.vitals.get("frozen") or run.workspace.team.stopped_at:
            continue
        for name in run.workspace.environment.services:
            if name not in run.stopped_services and _is_due(run, name):
                commands.start_service(run.workspace, run, name, by=SERVICES)


def _is_due(run, name: str) -> bool:
    ran = list(
        Command.objects.filter(run=run, service=name).select_related("operation").order_by("-created_at")[:REMEMBERED]
    )
    if not ran:
        return True
    last = ran[0]
    if not operations.is_over(last.operation) or last.cancelled_at or last.exit_status == 0:
        return False
    return clock.now() - (last.ended_at or last.created_at) >= timedelta(seconds=pause_after(ran))


def pause_after(ran: list[Command]) -> float:
    """Return the seconds to wait before a restart, given the past runs, newest first."""
    failures = 0
    for command in ran:
        if command.started_at and command.ended_at and command.ended_at - command.started_at > STEADY:
            break
        failures += 1
    return min(2.0 ** max(failures - 1, 0), LONGEST_PAUSE)

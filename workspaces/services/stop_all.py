"""End everything that runs in a team's workspaces, as part of the emergency stop."""

from django.db.models import Q

from dashboard.models import Actor
from workspaces import lifecycle, operations
from workspaces.models import Command, Operation, Run, Terminal, Workspace
from workspaces.services import commands as command_service

STARTING = Q(kind__in=("create", "resume", "rebuild"))


def running(team) -> dict[str, int]:
    """Count the team's open commands, services and terminals, and its workspaces that are up or starting."""
    still_open = Operation.objects.open()
    commands = Command.objects.filter(workspace__team=team, operation__in=still_open)
    return {
        "commands": commands.filter(service="").count(),
        "services": commands.exclude(service="").count(),
        "terminals": Terminal.objects.filter(workspace__team=team, operation__in=still_open).count(),
        "workspaces": _up(team).count(),
    }


def end(team, *, by: Actor) -> dict[str, int]:
    """End the programs and stop the workspaces, each with a snapshot; return the counts of `running`.

    The team must be marked as stopped before, so that nothing new starts and due operations that would start something
    (operations.STARTING_KINDS) are refused.
    """
    counts = running(team)
    still_open = Operation.objects.open().filter(workspace__team=team)
    for command in Command.objects.filter(operation__in=still_open).select_related("operation", "workspace"):
        command_service.cancel_command(command, by=by)
    for operation in still_open.filter(STARTING | Q(terminal__isnull=False)):
        operations.request_cancel(operation)
    for workspace in _up(team):
        lifecycle.submit_exclusive(workspace, "stop", by=by)
    operations.wake_runner()
    return counts


def _up(team):
    """Return the workspaces with an open Run or with an open operation that starts one."""
    starting = Operation.objects.open().filter(STARTING).values("workspace")
    runs = Run.objects.filter(ended_at=None).values("workspace")
    return Workspace.objects.kept().filter(team=team).filter(Q(pk__in=runs) | Q(pk__in=starting))

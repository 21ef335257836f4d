"""Note of other hosts' workspaces that nobody answers for them: the runner of a host that is away cannot."""

from dashboard.database import clock
from dashboard.models import Actor, Team
from workspaces import lifecycle
from workspaces.host import place
from workspaces.models import Run, Runner, State, StateCode, Workspace
from workspaces.models.runners import RUNNER_TIMEOUT

SYSTEM = Actor.system("runner")


def up_on_silent(here: Runner):
    """Return the Runs that are up on other hosts, which are silent, and not marked as unreachable."""
    silent = Runner.objects.exclude(pk=here.pk).filter(heartbeat_at__lt=clock.now() - RUNNER_TIMEOUT)
    runs = Run.objects.filter(ended_at=None, ready_at__isnull=False, runner__in=silent, workspace__state=State.READY)
    return runs.exclude(workspace__reason_code=StateCode.UNREACHABLE)


def sweep(here: Runner):
    """Mark what is up on a silent host as unreachable; its own runner takes that back when it answers again."""
    for run in up_on_silent(here).select_related("workspace__runner"):
        _mark(run.workspace)


def _mark(workspace):
    words = place.unreachable(workspace)
    with Team.objects.turn(workspace.team_id):
        rows = Workspace.objects.filter(pk=workspace.pk, state=State.READY).exclude(reason_code=StateCode.UNREACHABLE)
        if words and rows.update(reason=words, reason_code=StateCode.UNREACHABLE):
            lifecycle.record(workspace, SYSTEM, "workspace.unreachable", {"reason": words})

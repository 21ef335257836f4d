"""Run the checks of the environment when the agent of an attempt is done, so that attempts can be compared.

`step` compares rows and may be called at any time, twice, or late: each time that an agent is done, each check starts
once.
"""

from contextlib import suppress

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q

from approvals.agent_runs.following import responsible
from approvals.models import AgentRunState, TaskAttempt
from dashboard.database import clock
from dashboard.models import Actor, Team
from dashboard.problems import Problem
from workspaces.services import commands


def due():
    """Return the attempts on this host whose agent was done since their checks were last started."""
    rows = TaskAttempt.objects.filter(task__end="", thrown_at=None, run__state=AgentRunState.DONE)
    rows = rows.filter(workspace__runner__host=settings.HANDRAIL_HOST_NAME, workspace__trashed_at=None)
    return rows.filter(Q(checked_at=None) | Q(checked_at__lt=F("run__changed_at")))


def step() -> int:
    """Start the checks that are due; return at how many attempts was looked."""
    found = list(due().values_list("pk", "workspace__team"))
    for pk, team_id in found:
        _start(pk, team_id)
    return len(found)


@transaction.atomic
def _start(pk, team_id):
    Team.objects.take_turn(team_id)
    rows = due().select_related("workspace__environment", "workspace__team", "run__started_by")
    attempt = rows.filter(pk=pk).first()
    if attempt is None:
        return
    TaskAttempt.objects.filter(pk=pk).update(checked_at=clock.now())
    with suppress(Problem), transaction.atomic():  # of a workspace that cannot be used now, they stay not run
        person = responsible(attempt.run).actor
        by = Actor(person.type, person.id, f"{person.label} (task)"[:200])
        for name in attempt.workspace.environment.checks:
            commands.run_command(attempt.workspace, {"check": name}, by=by)

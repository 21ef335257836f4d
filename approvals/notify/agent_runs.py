"""Tell who started an agent that it is done, asks for more budget, or can't go on."""

from functools import partial

from django.db import transaction
from django.utils.translation import gettext

from approvals.models import AgentRun, AgentRunState
from approvals.notify import direct


def untold():
    """Return the runs with something that was not told yet."""
    return AgentRun.objects.exclude(untold="")


def tell_all() -> int:
    """Tell what was not told yet; return how many were. The Desk shows it to everybody in any case."""
    return sum(_tell(run) for run in untold().select_related("team", "workspace", "started_by"))


@transaction.atomic
def _tell(run: AgentRun) -> bool:
    if not AgentRun.objects.filter(pk=run.pk, untold=run.untold).update(untold=""):
        return False  # another host was first
    return direct.tell_member(run.started_by, run.team_id, partial(_message, run))


def _message(run: AgentRun) -> str:
    """Return the message. It goes to services outside, so it has no task and nothing that the agent said."""
    about = {"team": run.team.name, "key": run.workspace.key}
    match run.untold:
        case AgentRunState.DONE:
            return gettext("%(team)s: the agent in %(key)s is done. Look at its work") % about
        case AgentRunState.ASKS:
            return gettext("%(team)s: the agent in %(key)s asks for more budget") % about
        case AgentRunState.INTERRUPTED:
            return gettext("%(team)s: the workspace %(key)s ended under its agent. Let it go on?") % about
    return gettext("%(team)s: the agent in %(key)s failed") % about

"""What a turn of a started agent has asked people: it ends with the turn, as nobody is there to run it any more."""

from django.db.models import Q, QuerySet

from approvals.actions import interrupts
from approvals.actions.expiry import mark_uncertain
from approvals.actions.transitions import LIVE, withdraw
from approvals.evaluation.calls import GATE
from approvals.models import OPEN_RUNS, Action, ActionEndCode, AgentRun, AgentSession, Status
from dashboard.models import Actor
from dashboard.problems import conflict

NO_OUTCOME = "The agent's program ended before it reported an outcome."


def cancel(run: AgentRun, by: Actor, note: str, *, code: ActionEndCode = ActionEndCode.ABANDONED):
    """Cancel what waits for a person, and approvals that were not used. `note` is the reason."""
    for action in _of(run).filter(LIVE):
        withdraw(action, by, note, code=code)


def leave_unclear(run: AgentRun, by: Actor):
    """Mark calls that the agent itself was running as unclear: its program has ended."""
    running = Q(status=Status.RUNNING, mode=GATE, operation=None)
    for action in _of(run).filter(running):
        mark_uncertain(action, NO_OUTCOME, by=by, when=running)


def ending(agent) -> QuerySet[AgentRun]:
    """Return the open runs of the agent whose turn was asked to end; one may come more than once."""
    return AgentRun.objects.filter(
        agent=agent, state__in=OPEN_RUNS, turns__end="", turns__asked_to_end_at__isnull=False
    )


def refuse(agent, session: str):
    """Raise Problem 409 for a session whose turn was asked to end: what it still asks or uses does not run."""
    for run in ending(agent).distinct() if session else ():
        if not run.native_id or session in _sessions(run):
            raise conflict("A person has ended this turn of the agent, so nothing is allowed.", code=interrupts.CODE)


def _of(run: AgentRun):
    found = Action.objects.filter(agent=run.agent_id, workspace=run.workspace_id, created_at__gte=run.created_at)
    if run.native_id:  # else its program has not told it yet
        found = found.filter(session__in=_sessions(run))
    return found.order_by("number")


def _sessions(run: AgentRun) -> set[str]:
    """Return the native ids of the run's session and of its sub-agents' below it."""
    found, parents = {run.native_id}, {run.session_id} - {None}
    while parents:
        children = AgentSession.objects.filter(parent__in=parents).exclude(native_id__in=found)
        rows = dict(children.values_list("pk", "native_id"))
        found, parents = found | set(rows.values()), set(rows)
    return found

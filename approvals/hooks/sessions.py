"""Apply the end of a turn or session to the actions of that session."""

from django.db.models import F, Q, QuerySet

from approvals.actions import agent_messages
from approvals.actions.expiry import mark_uncertain
from approvals.evaluation.calls import GATE
from approvals.evaluation.judge import with_all
from approvals.hooks import open_hooks, repeated
from approvals.models import Action, Status
from dashboard.database import clock

MAX_REMINDERS = 5  # approvals named in one reminder
TURN_OVER = "The agent's turn ended without reporting an outcome."
SESSION_OVER = "The agent's session ended without reporting an outcome."


def reminder(session: str, caller) -> tuple[str, list[Action]]:
    """Return (text, actions) to remind a stopping agent of calls that were approved after it stopped waiting.

    ("", []) if there are none.
    """
    found = _approved_meanwhile(session, caller) if session else []
    return "\n".join(agent_messages.approved_meanwhile(action) for action in found), found


def _approved_meanwhile(session: str, caller) -> list[Action]:
    """Return unused approvals that the agent no longer waits for and has not heard of, oldest first."""
    unheard = Q(agent_seen_at=None) | Q(agent_seen_at__lt=F("decided_at"))
    waiting = Q(status=Status.APPROVED, mode=GATE, consumed_at=None, consume_by__gt=clock.now())
    applied = Q(mode=GATE, operation__isnull=False, ended_at__gt=F("agent_seen_at"))
    found = Action.objects.visible_to(caller).filter((waiting & unheard) | applied, session=session).order_by("number")
    return [action for action in with_all(found)[:MAX_REMINDERS] if not open_hooks.is_waiting(action.call_hash)]


def leave_unclear(session: str, caller, note: str, *, but_repeats: bool = False):
    """Mark the session's running calls as unclear: no report of how they ended will come.

    `but_repeats`: except edited calls that the agent was asked to make itself; it may make them in its next turn.
    """
    running = Q(status=Status.RUNNING)
    if but_repeats:
        running &= Q(repeat_hash="") | Q(consumed_at__lt=clock.now() - repeated.VALID_FOR)
    for action in let_through(session, caller).filter(running):
        mark_uncertain(action, note, by=caller.actor, when=running)


def let_through(session: str, caller) -> QuerySet[Action]:
    """Return the session's calls that were allowed and have no reported outcome, newest first."""
    open_ones = Q(status__in=(Status.RUNNING, Status.UNCERTAIN), mode=GATE, operation=None, consumed_at__isnull=False)
    found = Action.objects.visible_to(caller).filter(open_ones, session=session).exclude(session="")
    return found.order_by("-consumed_at")

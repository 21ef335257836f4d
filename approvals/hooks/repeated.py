"""An approved edit for an agent that cannot take one: it is told which call to make, and that call runs once."""

from dataclasses import replace
from datetime import timedelta

from approvals.actions import agent_messages, gate, interrupts
from approvals.evaluation.calls import Call
from approvals.hooks.waiting import Verdict
from approvals.models import Action, Status
from dashboard import json_text
from dashboard.database import clock

VALID_FOR = timedelta(hours=1)
WORDS = (
    "{reason} A person edited the call, and this agent cannot take over an edit by itself, so nothing has run "
    "yet.{notes} Make exactly this call instead; it runs at once: {call}"
)


def ask_for(verdict: Verdict, call: Call, native: dict, caller) -> str:
    """Remember the edited call as the one that may run, and return the words that ask the agent for it."""
    edited = replace(call, arguments=verdict.arguments)
    Action.objects.filter(pk=verdict.action.pk).update(repeat_hash=edited.hash_for(caller.agent))
    notes = agent_messages.comments(verdict.action)
    return WORDS.format(
        reason=verdict.reason, notes=f" {notes}" if notes else "", call=json_text.dumps(native, ensure_ascii=False)
    )


def taken(call: Call, caller) -> Action | None:
    """Return the action whose edit this call is, once; None if it is an ordinary call."""
    gate.refuse_when_stopped(caller.agent.team)
    if interrupts.in_force_for(caller.agent, call.session):
        return None  # its submission is refused
    found = Action.objects.filter(
        agent=caller.agent,
        session=call.session,
        repeat_hash=call.hash_for(caller.agent),
        status=Status.RUNNING,
        consumed_at__gt=clock.now() - VALID_FOR,
    ).first()
    # Of two equal calls at once, only one finds it.
    if found and Action.objects.filter(pk=found.pk).exclude(repeat_hash="").update(
        repeat_hash="", call_id=call.call_id or found.call_id
    ):
        return found
    return None

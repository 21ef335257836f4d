"""Put what people say to an agent's session into the next response of one of its hooks.

Which responses reach the model differs from agent to agent (`Dialect.hears`). While the session is interrupted, a
denied call and the end of a call also end the turn, so that the agent does not go on to try other calls.
"""

from dataclasses import replace
from functools import partial

from django.conf import settings
from django.urls import reverse

from approvals.actions import interrupts
from approvals.agents.dialect import DENY, Dialect, Reply
from approvals.agents.hook_events import After, Before, HookEvent, TurnEnded
from approvals.hooks.connection import connection_of
from approvals.models import Interrupt
from approvals.sessions import messages


def add(reply: Reply, request, heard: HookEvent, dialect: Dialect, caller) -> Reply:
    """Return the reply with the session's messages, or with its interrupt."""
    # What is said to a sub-agent would not reach the agent that a person writes to.
    if not heard.session or heard.in_sub_agent:
        return reply
    if not dialect.hears(heard, reply):
        return reply
    stops_here = not isinstance(heard, Before) or reply.decision == DENY
    if stops_here and (found := interrupts.in_force_for(caller.agent, heard.session)):
        return _interrupted(reply, request, heard, found, caller)
    if not (claimed := messages.claim(caller, heard.session)):
        return reply
    connection_of(request).when_sent(partial(messages.mark_given, claimed, messages.HOOK, by=caller.actor))
    return reply.with_context("\n\n".join(messages.quoted(message) for message in claimed))


def _interrupted(reply: Reply, request, heard: HookEvent, found: Interrupt, caller) -> Reply:
    if isinstance(heard, TurnEnded):
        return reply  # it stops, as it was asked to
    connection_of(request).when_sent(partial(interrupts.mark_heard, caller.agent, heard.session, by=caller.actor))
    if not isinstance(heard, After | Before):
        return reply.with_context(interrupts.agent_text(found))
    address = f"{settings.HANDRAIL_PUBLIC_URL}{reverse('agent-talk', args=[found.agent_id])}"
    why = f"Handrail: {found.user.get_username()} interrupted this session. Let it go on: {address}"
    reply = reply.with_context(interrupts.agent_text(found)) if isinstance(heard, After) else reply
    return replace(reply, ends_turn=why)

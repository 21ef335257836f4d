"""Put what people say to a Claude Code session into the next response of one of its hooks.

The fields that reach the model differ from event to event. While the session is interrupted, a denied call and the end
of a call also end the turn (`continue`), so that the agent does not go on to try other calls.
"""

from functools import partial

from django.conf import settings
from django.urls import reverse

from approvals.hooks.connection import connection_of
from approvals.models import Interrupt
from approvals.talk import interrupts, messages

ENDS = ("PostToolUse", "PostToolUseFailure")
IN_CONTEXT = (*ENDS, "SessionStart", "UserPromptSubmit")


def add(response: dict, request, event: dict, caller) -> dict:
    """Return the response with the session's messages, or with its interrupt."""
    name, session = event.get("hook_event_name"), event.get("session_id")
    # What is said to a sub-agent would not reach the agent that a person writes to.
    if not isinstance(session, str) or not session or event.get("agent_id"):
        return response
    is_denied = name == "PreToolUse" and _decision(response) == "deny"
    if (is_denied or name in IN_CONTEXT or name == "Stop") and (found := interrupts.holding(caller.agent, session)):
        return _interrupted(response, request, name, session, found, caller)
    if name not in (*IN_CONTEXT, "PreToolUse", "Stop") or (name == "PreToolUse" and not _decision(response)):
        return response
    if not (claimed := messages.claim(caller, session)):
        return response
    connection_of(request).when_sent(partial(messages.mark_given, claimed, messages.HOOK, by=caller.actor))
    return _with_text(response, name, "\n\n".join(messages.quoted(message) for message in claimed))


def _decision(response: dict) -> str | None:
    return response.get("hookSpecificOutput", {}).get("permissionDecision")


def _interrupted(response: dict, request, name: str, session: str, found: Interrupt, caller) -> dict:
    if name == "Stop":
        return response  # it stops, as it was asked to
    connection_of(request).when_sent(partial(interrupts.mark_heard, caller.agent, session, by=caller.actor))
    if name not in (*ENDS, "PreToolUse"):
        return _with_text(response, name, interrupts.words(found))
    address = f"{settings.HANDRAIL_PUBLIC_URL}{reverse('agent-talk', args=[found.agent_id])}"
    why = f"Handrail: {found.user.get_username()} interrupted this session. Let it go on: {address}"
    response = _with_text(response, name, interrupts.words(found)) if name in ENDS else response
    return response | {"continue": False, "stopReason": why}


def _with_text(response: dict, name: str, text: str) -> dict:
    """Return the response with a text where the model reads it: an allowed call's context, or a denial's reason."""
    if name == "Stop":  # the turn goes on with it
        reason = response.get("reason")
        return {"decision": "block", "reason": f"{reason}\n\n{text}" if reason else text}
    output = response.get("hookSpecificOutput") or {"hookEventName": name}
    field = "permissionDecisionReason" if output.get("permissionDecision") == "deny" else "additionalContext"
    said = output.get(field)
    return response | {"hookSpecificOutput": output | {field: f"{said}\n\n{text}" if said else text}}

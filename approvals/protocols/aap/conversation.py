"""What requests tell of their agent's conversation, as messages of its session: its words, the call, and how it ended.

The protocol knows no sessions. Its client tells the framework's own one with each request that can be resumed
(`context.resume`); a request without it is of no conversation, and nothing is made up for it. No request fails because
a message can't be kept.
"""

import logging

from approvals.models import Message, MessageKind, Role
from approvals.models.aap import AapRequest
from approvals.protocols.aap import wire
from approvals.sessions import posting
from approvals.sessions.posting import Posted
from dashboard import json_text
from dashboard.problems import Problem
from dashboard.text.strict_json import without_nul

logger = logging.getLogger("handrail.aap")
SESSION_KEYS = ("session_id", "thread_id", "run_id")  # of Claude's Agent SDK, of LangGraph, and of the others
NOT_RUN = ("denied", "expired", "cancelled")


def note_asked(request: AapRequest, caller):
    """Record the agent's words and its call. Again for the same request it changes nothing."""
    submitted = json_text.loads(request.submission)
    if words := submitted.get("agent_reasoning"):
        _post(request, submitted, caller, Posted(Role.ASSISTANT, words, id=f"aap:{request.pk}"))
    call = Posted(Role.ASSISTANT, submitted["arguments"], kind=MessageKind.CALL, **_about(request, submitted))
    if (message := _post(request, submitted, caller, call)) and message.action_id is None:
        Message.objects.filter(pk=message.pk).update(action=request.action)


def note_end(request: AapRequest, caller):
    """Record why the call is not run, in the words that the agent reads, or how it ended, as it reported."""
    submitted, (status, note) = json_text.loads(request.submission), wire.answer_of(request)
    if status in NOT_RUN:
        _post(request, submitted, caller, Posted(Role.TOOL, note, ok=False, **_about(request, submitted)))
    elif (outcome := wire.outcome_of(request)) is not None:
        is_done, words = outcome
        _post(request, submitted, caller, Posted(Role.TOOL, words, ok=is_done, **_about(request, submitted)))


def _about(request: AapRequest, submitted: dict) -> dict:
    """Return the tool and the call's id: the request's own, since the action may be that of a call edited into it."""
    call_id = submitted.get("context", {}).get("call_id")
    is_named = isinstance(call_id, str) and call_id
    return {"tool": request.action.tool, "call_id": without_nul(call_id) if is_named else str(request.pk)}


def _post(request: AapRequest, submitted: dict, caller, posted: Posted) -> Message | None:
    if not (session := session_of(submitted)):
        return None
    try:
        return posting.post(caller, session, posted, request.action.workspace)
    except Problem as problem:
        logger.warning("a message of request %s is not kept: %s", request.pk, problem)
        return None


def session_of(submitted: dict) -> str:
    """Return the framework's own id of the session of a submission; "" if it tells none. NUL is ␀, as in texts."""
    resume = submitted.get("context", {}).get("resume")
    found = [resume.get(name) for name in SESSION_KEYS] if isinstance(resume, dict) else []
    return without_nul(next((text for text in found if isinstance(text, str) and text), ""))

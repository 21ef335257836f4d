"""The view of every agent's hook: read the event in its dialect, hold a call until its answer, respond in its shape.

An agent runs the tool when a hook fails, so any failure is a denial in the agent's own shape.
"""

from contextlib import suppress
from functools import partial

from asgiref.sync import sync_to_async

from approvals.actions import interrupts
from approvals.agents import dialects
from approvals.agents.dialect import ALLOW, DENY, Dialect, Reply
from approvals.agents.hook_events import (
    After,
    Asked,
    Before,
    Began,
    Ended,
    HookEvent,
    OwnPrompt,
    Prompted,
    TurnEnded,
    Turning,
)
from approvals.hooks import before_call, other_hooks, own_prompts, people
from approvals.hooks.connection import connection_of
from approvals.hooks.endings import call_ended, turn_or_session_ended
from approvals.hooks.responses import fails_closed
from approvals.hooks.waiting import check_size, read_body, read_caller
from approvals.hooks.workspace_of import sign_of_life, workspace_of
from approvals.sessions import acp, hearing, prompts
from dashboard.door.walk import takes_tokens
from dashboard.models import Event
from dashboard.problems import Problem, not_found
from workspaces.lifecycle import agents_at_work

VERBS = {Began: "session.started", TurnEnded: "session.stopped", Ended: "session.ended"}


@takes_tokens("POST")
@fails_closed
async def hook(request, agent: str) -> tuple[dict, bool]:
    """Return the response, and whether it answers an event that waited for it."""
    if request.method != "POST":
        raise Problem(405, "Send hooks as POST. Nothing is allowed.")
    if (dialect := dialects.find(agent)) is None:
        raise not_found("agent")
    caller, event = await sync_to_async(_read)(request)
    heard = dialect.read(event, request.headers.get("X-Handrail-Event", ""))
    reply = await _reply(request, heard, dialect, caller)
    reply = await sync_to_async(_finish)(reply, event, request, heard, dialect, caller)
    return dialect.answer(heard, reply), isinstance(heard, Before | Asked)


def _read(request) -> tuple:
    """Return (caller, event). Problem 400, 401, 403, 413, 422."""
    return read_caller(request), read_body(request)


def _finish(reply: Reply, event: dict, request, heard: HookEvent, dialect: Dialect, caller) -> Reply:
    record = partial(_record_conversation, event, request, heard, dialect, caller)
    connection = connection_of(request)
    # A call that runs and has an id is recorded after the answer, since the agent waits for the answer. Should web die
    # in between, the event that reports the call's end records the call too.
    if connection.is_served and isinstance(heard, Before) and heard.call_id and reply.decision == ALLOW:
        reply = _with_people(reply, request, heard, dialect, caller)  # messages are marked as given first
        connection.when_sent(record)
        return reply
    record()
    return _with_people(reply, request, heard, dialect, caller)


def _with_people(reply: Reply, request, heard: HookEvent, dialect: Dialect, caller) -> Reply:
    """Return the reply with what people say to the session, and with other agents that are at work beside it."""
    reply = people.add(reply, request, heard, dialect, caller)
    if not isinstance(heard, Before) or reply.decision != ALLOW or not dialect.hears(heard, reply):
        return reply
    with suppress(Problem):
        if warning := agents_at_work.warning_for(workspace_of(request, heard, caller), caller):
            return reply.with_context(f"Handrail: {warning}")
    return reply


async def _reply(request, heard: HookEvent, dialect: Dialect, caller) -> Reply:
    match heard:
        case Before() | Asked():
            check_size(request)
            return await _decided(request, heard, dialect, caller)
        case After():
            return await sync_to_async(call_ended)(request, heard, dialect, caller)
        case OwnPrompt():
            return await sync_to_async(own_prompts.answer)(heard, caller)
        case Prompted():
            await sync_to_async(_note_prompt)(request, heard, caller)
        case Turning():
            await sync_to_async(_record)(heard, caller)
            await sync_to_async(sign_of_life)(request, heard, caller)
            if isinstance(heard, Began):
                return await sync_to_async(other_hooks.warning)(request, heard, dialect, caller)
            return await sync_to_async(turn_or_session_ended)(request, heard, caller)
    return Reply()


async def _decided(request, heard: Before | Asked, dialect: Dialect, caller) -> Reply:
    if isinstance(heard, Asked):
        return await before_call.question_asked(request, heard, dialect, caller)
    try:
        return await before_call.call_asked(request, heard, dialect, caller)
    except Problem as problem:
        if problem.extra.get("code") != interrupts.CODE:
            raise
        return Reply(DENY, problem.detail)


def _note_prompt(request, heard: Prompted, caller):
    """Store the person's prompt. It gates nothing, so a failure must not hold up the prompt."""
    workspace = None
    with suppress(Problem):
        workspace = workspace_of(request, heard, caller)
    if heard.text is not None:
        prompts.save(caller.agent, heard.session, heard.text, workspace)


def _record_conversation(event: dict, request, heard: HookEvent, dialect: Dialect, caller):
    """Keep the event's part of the conversation."""
    of_client = dialect.name in dialects.CLIENT_DIALECTS
    workspace = None
    with suppress(Problem):
        workspace = workspace_of(request, heard, caller)
    if of_client:
        acp.hear(event, caller, workspace)
    elif dialect.names_are_ours:
        hearing.hear(dialect.name, event, caller, workspace)
    else:
        hearing.hear_plainly(dialect.name, heard, caller, workspace)


def _record(heard: Turning, caller):
    data = {"session": heard.session} | heard.noted
    Event.objects.record(
        caller.agent.team_id, actor=caller.actor, verb=VERBS[type(heard)], subject=caller.agent, data=data
    )

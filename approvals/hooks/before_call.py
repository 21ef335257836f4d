"""Events on which the agent waits: a tool call, and a question of an MCP server."""

from dataclasses import replace
from functools import partial

from asgiref.sync import sync_to_async

from approvals.actions import gate
from approvals.agents.dialect import ALL_DAY, ALLOW, DENY, NONE, WHOLE, Dialect, Reply
from approvals.agents.hook_events import Asked, Before, OfCall
from approvals.evaluation.calls import GATE, Call
from approvals.evaluation.wrapping import can_wrap
from approvals.hooks import held_calls, opened_hosts, own_prompts, repeated
from approvals.hooks.connection import connection_of
from approvals.hooks.waiting import LONGEST_HOLD, Verdict, wait_for_verdict
from approvals.hooks.workspace_of import sign_of_life, workspace_of
from approvals.models import Action, Status
from approvals.questions import own_questions
from approvals.questions.own_questions import ELICITATION
from dashboard.database import clock

APPLIED = "This was tried on a copy, and a person approved and applied the result, so it must not run again."


def call_of(request, heard: OfCall | Asked, dialect: Dialect, caller) -> Call:
    """Return the tool call that an event is about. Problem 404, 409, 410, 422."""
    asks, connection = isinstance(heard, Asked), connection_of(request)
    connection.asked_at = connection.asked_at or clock.now()
    return Call(
        tool=ELICITATION if asks else heard.tool,
        arguments=heard.question if asks else heard.arguments,
        cwd=heard.cwd,
        workspace=workspace_of(request, heard, caller),
        mode=GATE,
        # An agent that cannot wait asks again: its action outlives the hook.
        hold_s=LONGEST_HOLD if dialect.patience_s >= ALL_DAY else None,
        session=heard.session,
        call_id=heard.call_id,
        asked_at=connection.asked_at,
        transcript=heard.transcript,
    )


def _call_as_it_runs(request, heard: Before, dialect: Dialect, caller) -> Call:
    """Return the call, and whether it is answered with one into the box of its folder."""
    call = call_of(request, heard, dialect, caller)
    if dialect.runs_in_box:
        call = replace(call, wraps=can_wrap(call.tool, call.arguments, call.cwd, call.workspace))
    call.hash_for(caller.agent)  # here, because that of a large call takes a while
    return call


async def call_asked(request, heard: Before, dialect: Dialect, caller) -> Reply:
    """Hold the call until it is decided, and return what the agent may do."""
    tool, arguments = heard.tool, heard.arguments
    if tool in own_questions.TOOLS and not (dialect.asks_here and own_questions.can_show(tool, arguments)):
        await sync_to_async(_leave_to_its_person)(request, heard, caller)
        return Reply() if dialect.asks_here else Reply(ALLOW, "The agent asks its own person.", arguments)
    if dialect.comes_after_hook and (asked := await sync_to_async(own_prompts.allowed_at_hook)(heard, caller)):
        return Reply(ALLOW, f"{asked} was allowed at the agent's own hook.", arguments)
    call = await sync_to_async(_call_as_it_runs)(request, heard, dialect, caller)
    if dialect.edits != WHOLE and (asked := await sync_to_async(repeated.taken)(call, caller)):
        return Reply(ALLOW, f"{asked} was approved as this call.", arguments)
    verdict = await wait_for_verdict(call, request=request, caller=caller, patience_s=dialect.patience_s)
    if verdict.is_left:
        return Reply(user_message=verdict.user_message)
    if not verdict.allowed:
        return Reply(DENY, verdict.reason, user_message=verdict.user_message)
    if verdict.replays is not None and dialect.edits == NONE:
        return Reply(DENY, f"{APPLIED} It printed: {held_calls.output_of(verdict.replays)}")
    if not dialect.carries(heard, verdict.arguments):
        words = await sync_to_async(repeated.ask_for)(verdict, call, dialect.native(heard, verdict.arguments), caller)
        return Reply(DENY, words, user_message=verdict.user_message)
    arguments, context = await _what_runs(call, verdict, caller, dialect)
    return Reply(ALLOW, verdict.reason, arguments, context, verdict.user_message)


async def _what_runs(call: Call, verdict: Verdict, caller, dialect: Dialect) -> tuple[dict, str]:
    """Return (arguments, words for the model) of an allowed call.

    In a held folder it becomes a call into the box; a call that a person approved gets a pass to the hosts of its card.
    """
    arguments, context = verdict.arguments, verdict.context
    if verdict.replays is not None:
        arguments = arguments | {"command": await sync_to_async(held_calls.replayed)(verdict.replays)}
    elif verdict.held is not None:
        arguments, is_first = await sync_to_async(_boxed_input)(call, arguments, verdict.held, caller)
        if is_first:
            context = " ".join(filter(None, (held_calls.CONTEXT, context)))
    elif verdict.action is not None:
        arguments, said = await sync_to_async(opened_hosts.with_pass)(verdict.action, arguments, dialect)
        context = " ".join(filter(None, (context, said)))
    return arguments, context


def _boxed_input(call: Call, arguments: dict, action: Action, caller) -> tuple[dict, bool]:
    """Return the tool input that runs the call in the box, and whether it is the session's first there."""
    return held_calls.wrapped(call, arguments, action, caller), held_calls.is_first(call, caller)


async def question_asked(request, heard: Asked, dialect: Dialect, caller) -> Reply:
    """Put a question of an MCP server to a person. Without a decision the agent asks at its own terminal."""
    if not own_questions.can_show(ELICITATION, heard.question):
        await sync_to_async(_leave_to_its_person)(request, heard, caller)
        return Reply()
    call = await sync_to_async(call_of)(request, heard, dialect, caller)
    verdict = await wait_for_verdict(call, request=request, caller=caller, patience_s=dialect.patience_s)
    if verdict.is_left:
        return Reply()
    if not verdict.answered:
        return Reply(DENY, verdict.reason, user_message=verdict.user_message)
    # No event reports its end, and nothing but the server's own request runs.
    report = partial(gate.report, verdict.answered, Status.SUCCEEDED.value, caller=caller, details={})
    connection_of(request).when_sent(report)
    answers = own_questions.answers_in(ELICITATION, verdict.arguments)
    return Reply(ALLOW, verdict.reason, user_message=verdict.user_message, content=answers)


def _leave_to_its_person(request, heard: Before | Asked, caller):
    gate.refuse_when_stopped(caller.agent.team)
    sign_of_life(request, heard, caller)

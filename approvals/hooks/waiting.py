"""Authenticate the agent of a hook, submit its call, hold the connection until the answer, and use the approval."""

import asyncio
import time
from dataclasses import dataclass
from functools import partial

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.exceptions import RequestDataTooBig

from approvals.actions import agent_messages, gate, questions_to_agents
from approvals.agents.dialect import ALL_DAY
from approvals.evaluation.calls import Call
from approvals.evaluation.judge import content
from approvals.hooks import open_hooks
from approvals.hooks.connection import connection_of
from approvals.hooks.intake_limit import turn
from approvals.hooks.open_hooks import OpenHook
from approvals.models import Action, ActionEndCode, Status
from approvals.questions import own_questions
from dashboard.database import clock
from dashboard.database.threads import query_in_thread
from dashboard.door.entering import let_in
from dashboard.live.long_poll import place_for, same_view, wait_for
from dashboard.people.access import Caller
from dashboard.people.tokens import find_token
from dashboard.problems import Problem, not_found
from dashboard.text.strict_json import loads

REPORT_SIZE = 4  # times a call's limit: Claude Code adds the file before and after to the call
ANSWER_PAUSES = (0.3, 1.0, 2.0, None)  # seconds between two looks for an agent's answer in its transcript
REFUSED = (Status.DENIED, Status.EXPIRED, Status.CANCELLED)
LONGEST_HOLD = ALL_DAY  # so that a hook's action ends before the hook does


@dataclass(frozen=True)
class Verdict:
    """The result of a hook.

    `arguments` are the whole approved input, `context` is for the model if the call is allowed, `user_message` for the
    person at its terminal.
    """

    allowed: bool
    reason: str
    arguments: dict | None = None
    context: str = ""
    user_message: str = ""
    held: Action | None = None  # the action, if nobody was asked about it and the kernel must hold the call
    replays: Action | None = None  # the action, if its rehearsal was applied instead of a run
    answered: Action | None = None  # an agent's question that a person answered
    action: Action | None = None  # whose approval allows it
    is_left: bool = False  # a question or plan that nobody answered here: the agent asks at its own terminal


def read_caller(request) -> Caller:
    """Return the agent that the request's token belongs to. Problem 401, or 403 for a person's token."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    caller = let_in(find_token(token.strip()) if scheme.lower() == "bearer" else None, request)
    if caller is None:
        raise Problem(401, "This token is invalid, so nothing is allowed.")
    if caller.is_person:
        raise Problem(403, "This token is a person's. A hook needs an agent's, so nothing is allowed.")
    return caller


def read_body(request) -> dict:
    """Return the JSON object in the body. Problem 400, 413, 422. A report may be larger than its call."""
    try:
        body = request.body
    except RequestDataTooBig:
        body = None
    if body is None or len(body) > REPORT_SIZE * settings.HANDRAIL_BODY_BYTES:
        raise _too_large()
    parsed = loads(body)
    if not isinstance(parsed, dict):
        raise Problem(422, "The body must be a JSON object.")
    return parsed


def check_size(request):
    """Raise Problem 413 for a call that is too large to show to a person."""
    if len(request.body) > settings.HANDRAIL_BODY_BYTES:
        raise _too_large()


def _too_large() -> Problem:
    return Problem(413, f"The call exceeds the limit of {settings.HANDRAIL_BODY_BYTES:,} bytes. It did not run.")


async def wait_for_verdict(call: Call, *, request, caller: Caller, patience_s: int) -> Verdict:
    """Submit the call, wait until it is decided or over, at most `patience_s`, and consume its approval.

    The same event sent again (by a second hook, by a client that lost its connection, or after a restart of Handrail)
    finds its action and its decision. The action is withdrawn after the last hook of it closed its connection.
    """
    connection = connection_of(request)
    hook = OpenHook(call.hash_for(caller.agent), call.call_id)
    connection.at_end(hook.leave)
    try:
        answer = await _answer(call, request, caller, hook, patience_s)
    except asyncio.CancelledError:
        if connection.is_closed:
            open_hooks.run_later(open_hooks.GRACE, partial(_abandon_if_closed, hook, call, caller))
        raise
    if isinstance(answer, Verdict):
        connection.when_sent(partial(gate.mark_heard, answer.action))
        return answer
    action = answer
    if hook.is_replaced and not hook.is_approved:
        return Verdict(False, agent_messages.ASKED_AGAIN)
    if not (hook.is_approved and hook.at_once):
        connection.when_sent(partial(gate.mark_heard, action))
    return await query_in_thread(_verdict, action, allowed=hook.is_approved)


def _submit(call: Call, caller: Caller) -> tuple[Action, bool, Verdict | None]:
    """Return the action, whether it is new, and the verdict on one that runs at once."""
    action, is_new = gate.submit(call, caller=caller, runs=True)
    if not is_new and action.status == Status.PENDING:
        action.asked_again_at = clock.now()
        Action.objects.filter(pk=action.pk).update(asked_again_at=action.asked_again_at)
    runs = is_new and action.status == Status.RUNNING
    return action, is_new, _verdict(action, allowed=True) if runs else None


async def _answer(call: Call, request, caller: Caller, hook: OpenHook, patience_s: int) -> Action | Verdict:
    """Return the action once it is over or the hook must return; the verdict on one that may run at once."""
    deadline = connection_of(request).began + min(settings.HANDRAIL_HOLD_SECONDS, LONGEST_HOLD, patience_s)
    async with turn(caller.agent.pk):
        action, is_new, verdict = await sync_to_async(_submit)(call, caller)
    hook.began_at = action.asked_again_at or action.created_at
    if verdict:
        hook.is_approved = True
        return verdict
    hook.at_once = is_new and gate.is_answered(action)
    if action.open_question_id:
        await _take_answer(action, call, caller)
        action = await query_in_thread(gate.find, action.pk, caller=caller)
    while not hook.is_replaced:
        if gate.is_answered(action):
            action = await _collect(action, call, caller, hook)
            if gate.is_answered(action):  # else the files that it runs changed, so it needs approval again
                break
        hook.at_once = False
        action = await _wait(action, caller, deadline)
        if not gate.is_answered(action) or action.status in REFUSED:
            break
        # The wait may have taken hours: check again that the token is valid and the agent is not paused.
        caller = await query_in_thread(read_caller, request)
    return action


async def _take_answer(action: Action, call: Call, caller: Caller):
    take = sync_to_async(questions_to_agents.take_answer)
    for pause in ANSWER_PAUSES:
        if await take(action, call, caller=caller, is_last=pause is None):
            return
        await asyncio.sleep(pause)


async def _wait(action: Action, caller: Caller, deadline: float) -> Action:
    with place_for(caller):
        found = await wait_for(
            partial(gate.find_all, caller=caller),
            lambda found: found is None or gate.is_answered(found) or questions_to_agents.is_unheard(found),
            team_ids=caller.team_ids,
            subject=str(action.pk),
            timeout=deadline - time.monotonic(),
            batch=("hooks", *same_view(caller)),
            key=action.pk,
        )
    if found is None:
        raise not_found("action")
    return found


async def _collect(action: Action, call: Call, caller: Caller, hook: OpenHook) -> Action:
    """Consume the approval, or share the one that another hook of this event consumed; return the action after that."""
    is_first = not hook.lock.locked()
    async with hook.lock:
        if not is_first:
            action = await query_in_thread(gate.find, action.pk, caller=caller)
        if action.status == Status.APPROVED:
            used = await _use_up(action, call, caller, at_once=hook.at_once)
            hook.is_approved = used is not None
            action = used or await query_in_thread(gate.find, action.pk, caller=caller)
    hook.is_approved = hook.is_approved or gate.is_approval_for(action, call)
    return action


async def _use_up(action: Action, call: Call, caller: Caller, *, at_once: bool) -> Action | None:
    """Consume the approval; None if it is used, expired or revoked, or the action needs approval again."""
    noted = {"call_id": call.call_id or action.call_id}
    if not at_once:
        noted["agent_seen_at"] = None  # set after the response was sent
    try:
        return await gate.consume(action.pk, digest=action.digest, caller=caller, **noted)
    except Problem as problem:
        if problem.extra.get("code") not in ("already_consumed", "expired", "revoked", "changed"):
            raise
        return None


async def _abandon_if_closed(hook: OpenHook, call: Call, caller: Caller):
    if not open_hooks.is_waiting(hook.call_hash):
        await query_in_thread(gate.abandon, call, caller=caller, since=hook.began_at)


def _verdict(action: Action, *, allowed: bool) -> Verdict:
    user_message = agent_messages.for_the_terminal(action)
    if action.is_carried_out and (action.result or {}).get("applied"):
        permission, context = agent_messages.permission(action), agent_messages.notes(action)
        return Verdict(True, permission, content(action)["arguments"], context, user_message, replays=action)
    if allowed and action.status == Status.RUNNING:
        held = action if action.envelope is not None else None
        permission, context = agent_messages.permission(action), agent_messages.notes(action)
        answered = action if action.tool in own_questions.QUESTIONS else None
        arguments = content(action)["arguments"]
        return Verdict(True, permission, arguments, context, user_message, held, answered=answered, action=action)
    return Verdict(False, agent_messages.refusal(action), user_message=user_message, is_left=_is_left(action))


def _is_left(action: Action) -> bool:
    """Return whether an agent's question or plan ended unanswered: it expired, or a person left it to the terminal.

    Not one that the agent itself gave up or the emergency stop ended.
    """
    ended = (ActionEndCode.UNANSWERED, ActionEndCode.WITHDRAWN)
    return action.tool in own_questions.TOOLS and action.end_code in ended

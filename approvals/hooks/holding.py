"""What all dialects do alike: know who asks, put the question, hold the line, collect the answer, fail closed."""

import functools
import logging
from dataclasses import dataclass

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import close_old_connections
from django.http import HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt

from approvals import gate, words
from approvals.calls import Call
from approvals.models import Action, Status
from approvals.reading import content
from dashboard.access import Caller, caller_by_token
from dashboard.problems import Problem
from dashboard.strict_json import loads
from dashboard.tokens import find_token
from dashboard.waiting import place_for, wait_for

logger = logging.getLogger("handrail.hooks")


@dataclass(frozen=True)
class Verdict:
    """`arguments` are the whole approved input; `told` is for the model when a person changed it."""

    allowed: bool
    reason: str
    arguments: dict | None = None
    told: str | None = None


def fails_closed(deny):
    """Make a hook's view answer 200 with `deny(reason)`, a JSON object, whatever goes wrong in it."""

    def decorate(view):
        @csrf_exempt
        @functools.wraps(view)
        async def guarded(request) -> HttpResponse:
            try:
                return JsonResponse(await view(request))
            except Problem as problem:
                return JsonResponse(deny(problem.detail))
            except Exception as error:
                # The broad handler: an agent runs its tool when a hook breaks, so this one never does.
                logger.exception("a hook failed")
                return JsonResponse(deny(f"Handrail failed here ({type(error).__name__}), so nothing is allowed."))

        return guarded

    return decorate


def read_caller(request) -> Caller:
    """The agent that the request's token speaks for; Problem 401."""
    close_old_connections()
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    found = find_token(token.strip()) if scheme.lower() == "bearer" else None
    caller = caller_by_token(found, request.headers.get("X-Handrail-Inside", "")) if found else None
    if caller is None:
        raise Problem(401, "Handrail does not know this token, or its agent is paused, so nothing is allowed.")
    if caller.is_person:
        raise Problem(403, "This token is a person's. A hook needs an agent's, so nothing is allowed.")
    return caller


def read_body(request) -> dict:
    """The JSON object in the body; Problem 400, 413, 422."""
    try:
        body = request.body
    except RequestDataTooBig:
        body = None
    if body is None or len(body) > settings.HANDRAIL_BODY_BYTES:
        raise Problem(
            413, f"A call may have {settings.HANDRAIL_BODY_BYTES:,} bytes. This one has more; it did not run."
        )
    parsed = loads(body)
    if not isinstance(parsed, dict):
        raise Problem(422, "A hook's body is a JSON object.")
    return parsed


async def hold(call: Call, *, caller: Caller) -> Verdict:
    """Put the question, wait for the answer as long as a hook is held, and use an approval up."""
    with place_for(caller):
        action, _ = await sync_to_async(gate.submit)(call, caller=caller)
        if not gate.is_answered(action):
            action = await wait_for(
                functools.partial(gate.find, action.pk, caller=caller),
                gate.is_answered,
                team_ids=caller.team_ids,
                subject=str(action.pk),
                timeout=settings.HANDRAIL_HOLD_SECONDS,
            )
    if action.status == Status.APPROVED:
        try:
            action = await gate.consume(action.pk, digest=action.digest, caller=caller, call_id=call.call_id)
        except Problem as problem:
            if problem.extra.get("code") not in ("already_consumed", "expired", "revoked"):
                raise
            return await sync_to_async(_refused)(action.pk, caller)
        return await sync_to_async(_allowed)(action)
    return await sync_to_async(_refused)(action.pk, caller)


def _allowed(action: Action) -> Verdict:
    return Verdict(True, words.permission(action), content(action)["arguments"], words.edit(action))


def _refused(pk, caller: Caller) -> Verdict:
    action = gate.find(pk, caller=caller)
    said = words.refusal(action)
    gate.heard(action)
    return Verdict(False, said)

"""Views of E2B's two APIs: who calls, and the answer in the form that its SDKs read."""

import functools
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpResponse, StreamingHttpResponse
from django.views.decorators.csrf import csrf_exempt
from pydantic import ValidationError

from approvals.protocols.e2b import wire
from dashboard.database.threads import query_in_thread
from dashboard.door.entering import let_in, let_in_socket, name_of, refuse_held_back
from dashboard.door.walk import takes_tokens
from dashboard.people.tokens import find_token
from dashboard.problems import Problem, invalid, of_text
from workspaces.api import lookup
from workspaces.models import State

logger = logging.getLogger("handrail.e2b")
SANDBOX = "E2b-Sandbox-Id"  # the header by which envd's calls name their sandbox
RECHECK_S = 10.0  # between two looks at who reads a stream, and at most between two messages of a silent one
READS = "POST /e2b/envd/process.Process/Connect"  # what a stream goes on as, whatever began it
GONE = (State.STOPPED, State.ARCHIVED, State.FAILED)  # what a client takes for a sandbox that was killed


def rest(*methods: str):
    """Make an async view that takes (request, …) and returns (status, JSON or None) or a response answer in REST."""

    def decorate(view):
        @takes_tokens(*methods)
        @csrf_exempt
        @functools.wraps(view)
        async def guarded(request, **named) -> HttpResponse:
            try:
                if request.method not in methods:
                    raise Problem(405, f"This address takes {' and '.join(methods)}.")
                await query_in_thread(authenticate, request)
                answer = await view(request, **named)
            except Exception as error:
                problem = _problem_of(error, request)
                answer = problem.status, wire.rest_error(problem)
            return answer if isinstance(answer, HttpResponse | StreamingHttpResponse) else _json(*answer)

        return guarded

    return decorate


@csrf_exempt
def not_taken(request) -> HttpResponse:
    """Answer any other address of E2B's APIs, in words that its SDKs show."""
    words = f"Handrail does not take {request.method} {request.path[:200]} of E2B's APIs (docs/e2b.md)."
    return _json(404, wire.rest_error(Problem(404, words)))


def unary(view):
    """Make an async view that takes (request, message) and returns a message answer by Connect."""

    @takes_tokens("POST")
    @csrf_exempt
    @functools.wraps(view)
    async def guarded(request) -> HttpResponse:
        try:
            await query_in_thread(_begin, request, wire.UNARY)
            return _json(200, await view(request, wire.object_in(body_of(request))))
        except Exception as error:
            problem = _problem_of(error, request)
            return _json(problem.status if problem.status != 410 else 404, wire.connect_error(problem))

    return guarded


def streamed(read=wire.first_message):
    """Make an async generator that takes (request, message) and yields messages answer by Connect.

    `read` makes the message of the body. An error is the last message of the stream, as the protocol wants it.
    """

    def decorate(view):
        @takes_tokens("POST")
        @csrf_exempt
        @functools.wraps(view)
        async def guarded(request) -> StreamingHttpResponse:
            response = StreamingHttpResponse(_frames(request, view, read), content_type=wire.STREAM)
            response["X-Accel-Buffering"] = "no"
            return response

        return guarded

    return decorate


async def _frames(request, view, read):
    end = {}
    try:
        await query_in_thread(_begin, request, wire.STREAM)
        async with aclosing(view(request, read(body_of(request)))) as messages:
            async for message in messages:
                yield wire.frame(message)
    except Exception as error:
        end = {"error": wire.connect_error(_problem_of(error, request))}
    yield wire.frame(end, wire.LAST_FRAME)


def _begin(request, kind: str):
    if request.method != "POST":
        raise Problem(405, "This address takes POST.")
    authenticate(request)
    if request.content_type != kind:
        raise Problem(415, f"This call takes {kind}; binary messages are not taken.")


def authenticate(request):
    """Set request.auth to the caller of the client's token. Problem 401, and what the door refuses."""
    token = wire.token_in(request.headers)
    request.auth = let_in(find_token(token), request) if token else None
    if request.auth is None:
        raise Problem(401, "The API key is no valid token of Handrail: hr_…")
    if request.auth.is_closed:
        raise Problem(403, "This token may not do that.")
    if key := request.headers.get(SANDBOX):  # the door knows a workspace by its address alone
        refuse_held_back(request.auth, name_of(request.method, request.resolver_match.route), key)


async def while_seen(request, messages: AsyncIterator, look: Callable) -> AsyncIterator:
    """Yield messages while the caller may see them: a stream outlives a revoked token and a lost membership.

    `look()` raises Problem once the caller, as of then in request.auth, does not see what they are about.
    """
    checked = time.monotonic()
    async with aclosing(messages):
        async for message in messages:
            if time.monotonic() - checked >= RECHECK_S:
                await query_in_thread(_look_again, request, look)
                checked = time.monotonic()
            yield message


def _look_again(request, look: Callable):
    request.auth = let_in_socket(find_token(wire.token_in(request.headers)), READS)
    if request.auth is None:
        raise Problem(401, "The API key is valid no more.")
    look()


def sandbox_of(request, verb: str = "read"):
    """Return the workspace that a call of envd is about. Problem 502, as E2B's proxy has it, if it is not there."""
    key = request.headers.get(SANDBOX, "")
    try:
        workspace = lookup.find(request, key, verb)
    except Problem as problem:
        if problem.status not in (404, 410):
            raise
        raise _absent(key) from None
    if workspace.state in GONE:
        raise _absent(key)
    return workspace


def _absent(key: str) -> Problem:
    return Problem(502, f"The sandbox {key} was not found.")


def body_of(request) -> bytes:
    """Return the body of a call. Problem 413 if it is larger than JSON may be here."""
    try:
        body = request.body
    except RequestDataTooBig:
        body = None
    if body is None or len(body) > settings.HANDRAIL_BODY_BYTES:
        raise Problem(413, f"A body may have {settings.HANDRAIL_BODY_BYTES:,} bytes.")
    return body


async def in_thread(function, *args):
    """Run a function that changes something, or asks the runner, off the event loop."""
    return await sync_to_async(function)(*args)


def _problem_of(error: Exception, request) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return invalid(f"{'.'.join(map(str, first['loc']))}: {first['msg']}.")
    if problem := of_text(error):
        return problem
    logger.exception("unhandled in %s %s", request.method, request.path)
    return Problem(500, f"Something broke here; the log has it under request {request.id}.")


def _json(status: int, body=None) -> HttpResponse:
    if body is None:
        return HttpResponse(status=status)
    return HttpResponse(json.dumps(body), status=status, content_type="application/json")

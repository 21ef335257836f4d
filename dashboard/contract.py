"""What every operation of the API has in common: who calls, how bodies are read, what may be answered."""

from functools import cache, partial

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from ninja import Schema
from ninja.operation import Operation
from ninja.parser import Parser
from ninja.security import HttpBearer

from dashboard.access import Caller, caller_by_token
from dashboard.problems import Problem
from dashboard.strict_json import loads
from dashboard.tokens import find_token

# ninja makes a class for each status of each operation. Most of them are of ProblemBody, and the same one serves for
# all: 700 take half a second of each start.
_response_model = cache(partial(Operation._create_response_model, None))
Operation._create_response_model = lambda self, answer: _response_model(answer)


class StrictParser(Parser):
    def parse_body(self, request):
        try:
            body = request.body
        except RequestDataTooBig:
            raise Problem(413, "The body is too large.") from None
        if len(body) > settings.HANDRAIL_BODY_BYTES:
            raise Problem(413, f"A body may have {settings.HANDRAIL_BODY_BYTES:,} bytes; this one has {len(body):,}.")
        return loads(body)


class Bearer(HttpBearer):
    """A live token's caller, in request.auth. Cookies never sign anybody in here."""

    def authenticate(self, request, token) -> Caller | None:
        found = find_token(token)
        return caller_by_token(found, request.headers.get("X-Handrail-Inside", "")) if found else None


class AsyncBearer(Bearer):
    """The same for async views."""

    async def authenticate(self, request, token) -> Caller | None:
        return await sync_to_async(super().authenticate, thread_sensitive=True)(request, token)


class ProblemBody(Schema):
    """RFC 9457"""

    type: str = "about:blank"
    title: str
    status: int
    detail: str


# What any operation may answer, for the schema.
PROBLEMS = {
    frozenset({400, 401, 403, 404, 409, 413, 415, 422, 429, 503, 507}): ProblemBody,
}

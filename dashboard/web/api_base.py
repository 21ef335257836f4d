"""What all operations of the API share: authentication, body parsing and documented error responses."""

from functools import cache, partial

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.urls import converters, register_converter
from ninja import Schema
from ninja.operation import Operation, PathView
from ninja.params.models import QueryModel
from ninja.parser import Parser
from ninja.security import HttpBearer

from dashboard.database.threads import query_in_thread
from dashboard.door.entering import let_in
from dashboard.people.access import Caller
from dashboard.people.tokens import find_token
from dashboard.problems import Problem, invalid, problem_response
from dashboard.text.strict_json import loads

# ninja creates a response class for each status of each operation, 700 in all, which takes half a second of each start.
# Nearly all are ProblemBody, so they share one.
_response_model = cache(partial(Operation._create_response_model, None))
Operation._create_response_model = lambda self, answer: _response_model(answer)


def _not_allowed(self: PathView):
    """Answer a method that the address does not take; ninja's own answer is a page."""
    methods = sorted({method for operation in self.operations for method in operation.methods})
    answer = problem_response(Problem(405, f"This address takes {' and '.join(methods)}.", allowed=methods))
    answer["Allow"] = ", ".join(methods)
    return answer


PathView._not_allowed = _not_allowed


class FilePath(converters.PathConverter):
    """A file's path, for routes such as `{file:path}`: Django's own converter takes no name with a line break."""

    regex = r"[\s\S]+"


register_converter(FilePath, "file")

# ninja ignores query parameters that an operation has not declared: a misspelt filter would answer with everything.
_declared_values = Operation._get_values


def _only_declared_values(operation: Operation, request, *rest) -> dict:
    unknown = [name for name in request.GET if name not in _query_parameters(operation)]
    if unknown:
        raise invalid(f"unknown parameter: {', '.join(unknown)}")
    return _declared_values(operation, request, *rest)


@cache
def _query_parameters(operation: Operation) -> frozenset[str]:
    models = [model for model in operation.models if issubclass(model, QueryModel)]
    return frozenset(name for model in models for name in model.__ninja_flatten_map__)


Operation._get_values = _only_declared_values


# {path: bytes} of addresses that take larger bodies than others; the modules of those addresses add them.
LARGE_BODIES: dict[str, int] = {}


class StrictParser(Parser):
    def parse_body(self, request):
        most = LARGE_BODIES.get(request.path, settings.HANDRAIL_BODY_BYTES)
        try:
            body = request.read(most + 1) if request.path in LARGE_BODIES else request.body
        except RequestDataTooBig:
            raise Problem(413, "The body is too large.") from None
        if len(body) > most:
            raise Problem(413, f"A body may have {most:,} bytes.")
        return loads(body)


class Bearer(HttpBearer):
    """Set request.auth to the caller of a live token. Cookies never authenticate API requests."""

    def authenticate(self, request, token) -> Caller | None:
        return let_in(find_token(token), request)


class AsyncBearer(Bearer):
    """Bearer for async views."""

    async def authenticate(self, request, token) -> Caller | None:
        return await query_in_thread(super().authenticate, request, token)


class ProblemBody(Schema):
    """Problem details (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str


# Error statuses that any operation may answer, for the schema.
PROBLEMS = {
    frozenset({400, 401, 403, 404, 409, 410, 413, 415, 422, 429, 503, 507}): ProblemBody,
}

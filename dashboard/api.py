"""The NinjaAPI instance: authentication, body parsing and error responses. The apps provide the routers."""

import asyncio
import functools
import logging
import re

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404
from ninja import NinjaAPI, Schema, Status, Swagger
from ninja.errors import AuthenticationError, AuthorizationError, HttpError, ValidationError
from ninja.renderers import JSONRenderer
from pydantic import Field

from dashboard import json_text
from dashboard.database import outages
from dashboard.database.errors import is_away, is_full
from dashboard.models import Team
from dashboard.problems import Problem, of_text, problem_response
from dashboard.web.api_base import PROBLEMS, Bearer, StrictParser
from workspaces.api.lookup import ask_first
from workspaces.operations.needs_approval import AskFirst

logger = logging.getLogger("handrail.api")
OF_A_UNION = re.compile(r"[a-z-]+\[.*\]")  # as pydantic names the type that did not fit: str-enum[State]


class ProblemAPI(NinjaAPI):
    """Documents error responses with the media type they are sent with: application/problem+json."""

    def get_openapi_schema(self, *, path_prefix: str | None = None, path_params: dict | None = None) -> dict:
        return self._schema_under(self.get_root_path(path_params or {}) if path_prefix is None else path_prefix)

    @functools.cache  # noqa: B019 - there is one API, and no route is added while it is served
    def _schema_under(self, path_prefix: str) -> dict:
        schema = super().get_openapi_schema(path_prefix=path_prefix)
        for operations in schema["paths"].values():
            for operation in operations.values():
                for status, response in operation["responses"].items():
                    if int(status) >= 400 and "application/json" in response.get("content", {}):
                        response["content"] = {"application/problem+json": response["content"]["application/json"]}
        return schema


class Renderer(JSONRenderer):
    """Writes numbers with the digits in which they came."""

    def render(self, request, data, *, response_status) -> str:
        return json_text.dumps(data, cls=self.encoder_class)


class OfflineDocs(Swagger):
    """Swagger with the scripts this server hosts; ninja's template for when it is not an app loads them from a CDN."""

    template_cdn = str(settings.NINJA / "templates" / Swagger.template)


api = ProblemAPI(
    title="Handrail",
    version="1",
    description=(
        "The review desk for coding agents. Errors are application/problem+json. "
        "A query parameter that an operation does not have is refused with 422."
    ),
    urls_namespace="api",
    docs=OfflineDocs(),
    parser=StrictParser(),
    renderer=Renderer(),
    auth=Bearer(),
)


@api.exception_handler(Problem)
def on_problem(request, problem):
    return problem_response(problem)


@api.exception_handler(AskFirst)
def on_ask_first(request, wanted):
    """Turn an agent's request that needs a person's permission into an action."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        return problem_response(wanted)  # in the event loop, without database access: the view did not use `answered`
    try:
        return ask_first(request, wanted)
    except Exception as error:  # ninja handles none that a handler raises
        return api.on_exception(request, error)


@api.exception_handler(Http404)
def on_404(request, error):
    return problem_response(Problem(404, "There is no such thing, or it is not yours to see.", code="not_found"))


@api.exception_handler(AuthenticationError)
def on_unauthenticated(request, error):
    response = problem_response(Problem(401, "The Authorization header holds no valid token: Bearer hr_…"))
    response["WWW-Authenticate"] = "Bearer"
    return response


@api.exception_handler(AuthorizationError)
def on_unauthorized(request, error):
    return problem_response(Problem(403, "This token may not do that."))


@api.exception_handler(ValidationError)
def on_invalid(request, error):
    places = [_inside(e["loc"], request.GET) for e in error.errors]
    fields = [
        {"where": ".".join(place) or "body", "what": e["msg"]} for place, e in zip(places, error.errors, strict=True)
    ]
    first = fields[0] if fields else {"where": "body", "what": "not acceptable"}
    named = {"field": places[0][0]} if places and places[0] else {}
    return problem_response(Problem(422, f"{first['where']}: {first['what']}.", errors=fields, **named))


def _inside(place: tuple, query) -> list[str]:
    """Return the names that lead to what an error is about, as the caller wrote them.

    Left out: "body" and what our function calls the body, or a group of parameters in `query`, and types of a union.
    """
    is_grouped = place[:1] == ("body",) or (place[:1] == ("query",) and len(place) > 2 and place[1] not in query)
    names = [str(part) for part in (place[2:] if is_grouped else place[1:])]
    return [name for name in names if not OF_A_UNION.fullmatch(name)]


@api.exception_handler(HttpError)
def on_http_error(request, error):
    # ninja answers 400 to anything the parser raises; the parser's own problem says more.
    cause = error.__cause__
    return problem_response(cause if isinstance(cause, Problem) else Problem(error.status_code, str(error)))


@api.exception_handler(RequestDataTooBig)
def on_too_big(request, error):
    return problem_response(Problem(413, "The body is too large."))


@api.exception_handler(InterfaceError)
@api.exception_handler(OperationalError)
def on_database_trouble(request, error):
    """Answer 507 for a full disk, whose transaction was rolled back as a whole, else 503."""
    if is_full(error):
        return problem_response(Problem(507, "The disk is full; nothing was changed. Make room and ask again."))
    told = logger.warning if is_away(error) else logger.exception  # each request of an outage fails alike
    told("the database failed in %s %s: %s", request.method, request.path, error)
    return outages.response(request)


@api.exception_handler(Exception)
def on_anything_else(request, error):
    if problem := of_text(error):
        return problem_response(problem)
    logger.exception("unhandled in %s %s", request.method, request.path)
    return problem_response(Problem(500, f"Something broke here; the log has it under request {request.id}."))


class Me(Schema):
    type: str = Field(description="person or agent")
    name: str
    teams: dict[str, str] = Field(description="team slug: role")


@api.get("/me", response={200: Me} | PROBLEMS, tags=["me"])
def me(request):
    """Whom this token speaks for."""
    caller = request.auth
    slugs = dict(Team.objects.visible_to(caller).values_list("pk", "slug"))
    told = {
        "type": caller.actor.type,
        "name": caller.user.get_username() if caller.is_person else caller.agent.name,
        "teams": {slugs[team_id]: role for team_id, role in caller.roles.items()},
    }
    return Status(200, told)


# By dotted path: dashboard knows the other apps by name only.
api.add_router("", "dashboard.site.events_api.router")
api.add_router("", "dashboard.site.log_api.router")
api.add_router("", "dashboard.site.measures.api.router")
api.add_router("", "dashboard.site.oversight.api.router")
api.add_router("", "dashboard.site.search_api.router")
api.add_router("", "dashboard.site.sessions_api.router")
api.add_router("", "dashboard.site.teams_api.router")
api.add_router("", "dashboard.site.tokens_api.router")
api.add_router("", "workspaces.api.router")
api.add_router("", "approvals.api.actions.router")
api.add_router("", "approvals.api.agents.router")
api.add_router("", "approvals.api.agent_definitions.router")
api.add_router("", "approvals.api.documents.router")
api.add_router("", "approvals.api.approver_groups.router")
api.add_router("", "approvals.api.callbacks.router")
api.add_router("", "approvals.api.duty.router")
api.add_router("", "approvals.api.agent_runs.router")
api.add_router("", "approvals.api.agent_set_up.router")
api.add_router("", "approvals.api.tasks.router")
api.add_router("", "approvals.api.task_sources.router")
api.add_router("", "approvals.api.conversations.router")
api.add_router("", "approvals.api.files.router")
api.add_router("", "approvals.api.grants.router")
api.add_router("", "approvals.api.line_comments.router")
api.add_router("", "approvals.api.log_targets.router")
api.add_router("", "approvals.api.messages.router")
api.add_router("", "approvals.api.overview.router")
api.add_router("", "approvals.api.talk.router")
api.add_router("", "approvals.api.policy.router")
api.add_router("", "approvals.api.policy_files.router")
api.add_router("", "approvals.api.policy_effect.router")
api.add_router("", "approvals.api.rule_files.router")
api.add_router("", "approvals.api.stop.router")

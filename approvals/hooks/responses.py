"""Write the response to a hook: the agent's own JSON, or an envelope around it for the hook's program.

An agent runs its tool when a hook fails, so every error is a denial with status 200.
"""

import functools
import logging

from django.conf import settings
from django.http import HttpResponse
from django.views.decorators.csrf import csrf_exempt

from approvals.agents import dialects
from approvals.agents.response import body_of
from approvals.hooks.connection import connection_of
from dashboard.database.errors import is_away
from dashboard.database.outages import patiently
from dashboard.problems import Problem, of_text

logger = logging.getLogger("handrail.hooks")


def denial(path: str, prefer: str, reason: str) -> bytes:
    """Return the body that denies in the shape of the agent at this path."""
    dialect = dialects.of_path(path)
    return body_of(prefer, dialect.deny(reason), decides=True)


def fails_closed(view):
    """Make a hook's view, which returns (answer, decides), respond with a denial for any exception in it."""

    @csrf_exempt
    @functools.wraps(view)
    async def guarded(request, agent: str) -> HttpResponse:
        dialect, prefer = dialects.find(agent) or dialects.DEFAULT, request.headers.get("Prefer", "")
        connection = connection_of(request)
        until = connection.began + min(settings.HANDRAIL_HOLD_SECONDS, dialect.patience_s)

        async def answered():
            connection.begin_again()
            return await view(request, agent)

        try:
            # The same event again finds what is known of it, so a view that an outage ended can begin again.
            answer, decides = await patiently(answered, until=until)
        except Problem as problem:
            answer, decides = dialect.deny(problem.detail), True
        except Exception as error:
            # Broad on purpose: an agent runs its tool when a hook fails, so this view never fails.
            if (problem := of_text(error)) is None:
                logger.exception("a hook failed")
            answer, decides = dialect.deny(_refusal_text(error, problem)), True
        return HttpResponse(body_of(prefer, answer, decides=decides), content_type="application/json")

    return guarded


def _refusal_text(error: Exception, problem: Problem | None) -> str:
    if is_away(error):
        why = "Handrail's database does not answer, so nothing is allowed."
        return f"{why} This is not a denial by a person: ask again later."
    why = problem.detail if problem else f"Handrail failed ({type(error).__name__})"
    return f"{why.rstrip('.')}, so nothing is allowed."

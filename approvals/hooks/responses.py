"""Write the response to a hook: the agent's own JSON, or an envelope around it for the hook's program.

An agent runs its tool when a hook fails, so every error is a denial with status 200.
"""

import functools
import logging

from django.http import HttpResponse
from django.views.decorators.csrf import csrf_exempt

from approvals import agents
from dashboard import json_text
from dashboard.problems import Problem, of_text

logger = logging.getLogger("handrail.hooks")
PREFERENCE = "handrail-envelope"  # in the header Prefer


def body_of(prefer: str, answer: dict, *, decides: bool) -> bytes:
    """Return the response's body. `decides`: it is the decision on a call, or a denial."""
    text = json_text.dumps(answer)
    if PREFERENCE not in prefer:
        return text.encode()
    return json_text.dumps({"handrail": 1, "decides": decides, "stdout": text}).encode()


def denial(path: str, prefer: str, reason: str) -> bytes:
    """Return the body that denies in the shape of the agent at this path."""
    dialect = agents.of_path(path)
    return body_of(prefer, dialect.deny(reason), decides=True)


def fails_closed(view):
    """Make a hook's view, which returns (answer, decides), respond with a denial for any exception in it."""

    @csrf_exempt
    @functools.wraps(view)
    async def guarded(request, agent: str) -> HttpResponse:
        dialect, prefer = agents.find(agent) or agents.DEFAULT, request.headers.get("Prefer", "")
        try:
            answer, decides = await view(request, agent)
        except Problem as problem:
            answer, decides = dialect.deny(problem.detail), True
        except Exception as error:
            # Broad on purpose: an agent runs its tool when a hook fails, so this view never fails.
            if (problem := of_text(error)) is None:
                logger.exception("a hook failed")
            why = problem.detail if problem else f"Handrail failed ({type(error).__name__})"
            answer = dialect.deny(f"{why.rstrip('.')}, so nothing is allowed.")
            decides = True
        return HttpResponse(body_of(prefer, answer, decides=decides), content_type="application/json")

    return guarded

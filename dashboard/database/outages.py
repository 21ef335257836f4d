"""Answer requests while the database is away, and let work that has time wait until it is back."""

import asyncio
import logging
import sys
import time
from math import inf

from django.http import HttpResponse
from django.template import loader
from django.views import defaults

from dashboard.database.errors import is_away, may_pass
from dashboard.net.desk_name import FOR_PROGRAMS
from dashboard.problems import Problem, problem_response, unavailable

logger = logging.getLogger("handrail.database")
RETRY_AFTER = 5  # seconds, told to programs
PAUSE = 1.0  # seconds between two tries
# Not "nothing was changed": a connection may break after the database has committed.
WORDS = "The database does not answer now. Ask again. With the same Idempotency-Key nothing is done twice."
_since: float | None = None  # when this process first waited for the database


def response(request) -> HttpResponse:
    """Return the 503 for a request that the database did not answer: a problem for programs, a page for people."""
    if request.path_info.startswith(FOR_PROGRAMS):
        told = problem_response(unavailable(WORDS))
    else:
        told = HttpResponse(loader.get_template("503.html").render(), status=503)
    told["Retry-After"] = str(RETRY_AFTER)
    told["Cache-Control"] = "no-store"
    told._has_been_logged = True  # Django would log a line for each
    return told


def broken(request) -> HttpResponse:
    """Answer a request that an exception ended outside of the API's own handlers; Django's `handler500`."""
    if may_pass(sys.exc_info()[1]):
        return response(request)
    if request.path_info.startswith(FOR_PROGRAMS):
        return problem_response(Problem(500, f"Something broke here; the log has it under request {request.id}."))
    return defaults.server_error(request)


async def patiently(call, *, until: float = inf, passes=is_away):
    """Return `await call()`; while the database is away try it again, up to this moment of the monotonic clock.

    `passes` says of an error whether it passes by itself.
    """
    has_waited = False
    while True:
        try:
            result = await call()
        except Exception as error:
            if not passes(error) or time.monotonic() + PAUSE > until:
                raise
            _began(error)
            has_waited = True
        else:
            if has_waited:
                _ended()
            return result
        await asyncio.sleep(PAUSE)


def patient(thread):
    """Return an async function like `thread`, which runs a function in a thread, that outlasts an outage."""

    async def waiting(function, *args, **kwargs):
        return await patiently(lambda: thread(function, *args, **kwargs))

    return waiting


def _began(error: Exception):
    global _since
    _since = _since or time.monotonic()
    logger.warning("waiting for the database: %s", error)  # `logs.Outage` lets few of these lines pass


def _ended():
    global _since
    if _since is not None:
        logger.warning("the database answers again, after %.0f s", time.monotonic() - _since)
        _since = None

"""One exception for every refusal, with a message to show: a problem response on the API, a notice on a page."""

import re

from django.db import DataError
from django.http import HttpResponse

from dashboard import json_text

TITLES = {
    400: "Bad request",
    401: "No valid token",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    410: "Gone",
    413: "Too large",
    415: "Unsupported media type",
    422: "Not acceptable",
    429: "Too many",
    500: "Something broke",
    503: "Not available",
    507: "Out of space",
}


class Problem(Exception):
    """A refusal: `status` as in HTTP, `detail` a sentence for people, `extra` further fields (JSON)."""

    def __init__(self, status: int, detail: str, **extra):
        super().__init__(detail)
        self.status, self.detail, self.extra = status, detail, extra


def not_found(what: str) -> Problem:
    """Return the refusal of what is not there or not the caller's to see; its code is such as snapshot_not_found."""
    kind = re.split(r" (?:in|of|on) ", what)[0]
    return Problem(404, f"There is no such {what}.", code=f"{re.sub(r'[^a-z]+', '_', kind)}_not_found")


def conflict(detail: str, **extra) -> Problem:
    return Problem(409, detail, **extra)


def gone(detail: str, **extra) -> Problem:
    return Problem(410, detail, **extra)


def invalid(detail: str, **extra) -> Problem:
    return Problem(422, detail, **extra)


def not_allowed(detail: str) -> Problem:
    return Problem(403, detail)


def unavailable(detail: str, **extra) -> Problem:
    return Problem(503, detail, **extra)


def of_text(error: Exception) -> Problem | None:
    """Return the refusal of a text that no database stores: with NUL, or half of a surrogate pair; else None.

    Each way in that knows where NUL may stand shows it as ␀ or refuses it by the field's name. What none of them has
    looked at ends here.
    """
    said = str(error)
    is_nul = isinstance(error, DataError | ValueError) and ("NUL (0x00)" in said or "\\u0000" in said)
    is_half = isinstance(error, UnicodeEncodeError) and "surrogates" in error.reason
    if not (is_nul or is_half):
        return None
    return invalid(
        "A text in it holds NUL (U+0000) or half of a surrogate pair, which can't be stored. Nothing was changed."
    )


def problem_response(problem: Problem) -> HttpResponse:
    """Return the problem as application/problem+json (RFC 9457)."""
    body = {
        "type": "about:blank",
        "title": TITLES.get(problem.status, "Refused"),
        "status": problem.status,
        "detail": problem.detail,
        **problem.extra,
    }
    return HttpResponse(json_text.dumps(body), status=problem.status, content_type="application/problem+json")

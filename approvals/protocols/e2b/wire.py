"""How E2B's SDKs send a call and read its answer: their token, Connect's messages, and errors in both APIs' forms."""

import base64
import binascii
import json
import math
from collections.abc import Mapping

from dashboard.problems import Problem, invalid
from dashboard.text.strict_json import loads

UNARY, STREAM = "application/json", "application/connect+json"
MOST_SECONDS = 24 * 3600  # that a call waits or a command runs if the client sets no time-out; E2B's own longest
LAST_FRAME = 2  # flag of the message that ends a stream
# Connect's code for each status of a Problem; any other is "internal".
CODES = {
    400: "invalid_argument",
    401: "unauthenticated",
    403: "permission_denied",
    404: "not_found",
    405: "unimplemented",
    409: "failed_precondition",
    410: "not_found",
    413: "invalid_argument",
    415: "invalid_argument",
    422: "invalid_argument",
    429: "resource_exhausted",
    501: "unimplemented",
    502: "unavailable",
    503: "unavailable",
    507: "resource_exhausted",
}
EXISTS = "already_exists"


def token_in(headers: Mapping[str, str]) -> str:
    """Return the token that a client sent: its API key, the token of a sandbox, or a bearer's; "" without one.

    The names of `headers` are looked up in lower case. `Authorization: Basic` names the user of a process, no secret.
    """
    if token := headers.get("x-api-key") or headers.get("x-access-token"):
        return token.strip()
    scheme, _, token = (headers.get("authorization") or "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def user_in(headers: Mapping[str, str]) -> str:
    """Return the name of the user as whom a process shall run; "" if the client leaves that to the sandbox."""
    scheme, _, pair = (headers.get("authorization") or "").partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(pair, validate=True).decode().partition(":")[0]
    except (binascii.Error, UnicodeDecodeError):
        raise invalid("The Authorization header is no user name in Basic form.") from None


def seconds_in(headers: Mapping[str, str]) -> float | None:
    """Return for how many seconds the client waits for the whole call; None if it sets no limit."""
    text = headers.get("connect-timeout-ms") or ""
    if not text:
        return None
    if not (text.isdecimal() and text.isascii() and len(text) <= 10):
        raise invalid("Connect-Timeout-Ms is a number of milliseconds.")
    return int(text) / 1000


def whole_seconds(seconds: float | None) -> int:
    """Return the time-out of a command whose client waits for `seconds`."""
    return MOST_SECONDS if seconds is None else max(1, min(math.ceil(seconds), MOST_SECONDS))


def object_in(body: bytes) -> dict:
    """Return the JSON object of a body; {} of an empty one. Problem 400 or 422."""
    found = loads(body) if body.strip() else {}
    if not isinstance(found, dict):
        raise invalid("The body is a JSON object.")
    return found


def part(message: dict, name: str) -> dict:
    """Return the object in a field of a message; {} without one. Problem 422 if it is something else."""
    found = message.get(name) or {}
    if not isinstance(found, dict):
        raise invalid(f"{name} is a JSON object.")
    return found


def first_message(body: bytes) -> dict:
    """Return the one message of a call that is answered by a stream."""
    found = messages_in(body)
    if len(found) != 1:
        raise invalid("This call takes one message.")
    return found[0]


def messages_in(body: bytes) -> list[dict]:
    """Return the messages of a stream that a client sent: each is a byte of flags, its length in four, and JSON."""
    found, at = [], 0
    while at < len(body):
        flags, end = body[at], at + 5 + int.from_bytes(body[at + 1 : at + 5], "big")
        if end > len(body) or len(body) - at < 5:
            raise invalid("The stream ends within a message.")
        if flags:
            raise Problem(415, "Compressed messages are not taken.")
        found.append(object_in(body[at + 5 : end]))
        at = end
    return found


def frame(message: dict, flags: int = 0) -> bytes:
    """Return a message of a stream as bytes."""
    data = json.dumps(message).encode()
    return bytes([flags]) + len(data).to_bytes(4, "big") + data


def as_json(value) -> str:
    return json.dumps(value)


def connect_error(problem: Problem) -> dict:
    """Return a refusal as Connect's error."""
    code = problem.extra.get("connect_code") or CODES.get(problem.status, "internal")
    return {"code": code, "message": problem.detail} | _reason(problem)


def rest_error(problem: Problem) -> dict:
    """Return a refusal as the error of E2B's REST API and of envd's HTTP addresses."""
    return {"code": problem.status, "message": problem.detail} | _reason(problem)


def _reason(problem: Problem) -> dict:
    """Return Handrail's own code of a refusal, which the SDKs pass over."""
    return {"reason": problem.extra["code"]} if "code" in problem.extra else {}

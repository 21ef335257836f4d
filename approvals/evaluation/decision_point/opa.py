"""Ask OPA over its data API: POST {"input": document}, and {"result": {decision, reason, without}} comes back."""

import http.client
import json
import socket
import threading
from contextlib import closing
from urllib.parse import urlsplit

from approvals.evaluation.decision_point.answers import TIER_OF, Answer, NoAnswer, allowed, answer
from dashboard import json_text
from dashboard.net import outbound

NAME = "OPA"
MAX_ANSWER = 64 * 1024  # bytes


def ask(address: str, document: dict, seconds: float) -> Answer:
    """Return OPA's answer within so many seconds. Raise NoAnswer."""
    try:
        status, body = _post(address, json.dumps({"input": document}).encode(), seconds)
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswer(f"it could not be asked within {seconds} s ({type(error).__name__})") from None
    if status != 200:
        raise NoAnswer(f"it answered {status}")
    try:
        found = json_text.loads(body)
    except (ValueError, RecursionError):
        raise NoAnswer("its answer is no JSON") from None
    return _read(found, document)


def _read(found, document: dict) -> Answer:
    if not isinstance(found, dict) or "result" not in found:
        raise NoAnswer("its result is undefined")
    result = found["result"]
    decision = result.get("decision") if isinstance(result, dict) else None
    if not isinstance(decision, str) or decision not in TIER_OF:
        raise NoAnswer("its result has no decision: allow, ask, two_people or forbid")
    if decision == "allow":
        without = result.get("without", [])
        return allowed(NAME, document, without if isinstance(without, list) else [])
    why = result.get("reason", "")
    return answer(NAME, decision, [why] if isinstance(why, str) else [])


def _post(address: str, body: bytes, seconds: float) -> tuple[int, bytes]:
    """Return (status, body) of the answer. Raise OSError, HTTPException."""
    parts = urlsplit(address)
    is_secure = parts.scheme == "https"
    port = parts.port or (443 if is_secure else 80)
    connection = http.client.HTTPConnection(parts.hostname, port, timeout=seconds)
    plain = outbound.connect(parts.hostname, port, seconds)
    # A server that sends byte after byte would never reach the time limit of one read.
    end = threading.Timer(seconds, _shut, [plain])
    end.daemon = True
    end.start()
    with closing(plain), closing(connection):
        try:
            connection.sock = outbound.wrapped(plain, parts.hostname) if is_secure else plain
            connection.request("POST", parts.path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            found = response.read(MAX_ANSWER)
            if response.length:  # bytes that did not come, or are too many
                raise http.client.IncompleteRead(found, response.length)
            return response.status, found
        finally:
            end.cancel()


def _shut(plain: socket.socket):
    try:
        plain.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it was closed meanwhile

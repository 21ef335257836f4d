"""ASGI wrapper that fails closed under /hooks/, also for requests that never reach a hook's view.

Django answers a wrong Host, an unreadable body, an unknown path or an exception in a middleware with a status or page
of its own, and an agent takes some of those as permission. Here they become a denial.
"""

import json
import logging

from approvals.hooks import responses
from approvals.hooks.connection import KEY, Connection

logger = logging.getLogger("handrail.hooks")
PREFIX = "/hooks/"
NO_AGENTS = "/hooks/code-host/"  # what calls there is no agent
WHY = "Handrail could not read this call ({status}), so nothing is allowed."


def fail_closed(app):
    """Wrap an ASGI application: any response under /hooks/ that is not 200 with a full JSON object becomes a denial."""

    async def guarded(scope, receive, send):
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX) or scope["path"].startswith(NO_AGENTS):
            await app(scope, receive, send)
            return
        start, body, connection = {"status": 500, "headers": []}, [], Connection(is_served=True)
        is_sent = False

        async def watch():
            message = await receive()
            if message["type"] == "http.disconnect" and not is_sent:
                connection.is_closed = True
            return message

        async def keep(message):
            nonlocal start, is_sent
            if message["type"] == "http.response.start":
                start = message
            elif message["type"] == "http.response.body":
                body.append(message.get("body", b""))
                if not message.get("more_body"):  # before Django puts the request away, in a thread
                    await _send(send, scope, start, b"".join(body))
                    is_sent = True

        try:
            try:
                await app(scope | {KEY: connection}, watch, keep)
            except Exception:
                logger.exception("a hook failed outside its view")
            if not is_sent:
                await _send(send, scope, start, b"".join(body))
            if not connection.is_closed:
                await connection.sent()
        finally:
            connection.end()

    return guarded


async def _send(send, scope: dict, start: dict, body: bytes):
    if not _is_full_answer(start["status"], body):
        prefer = dict(scope["headers"]).get(b"prefer", b"").decode("latin-1")
        body = responses.denial(scope["path"], prefer, WHY.format(status=start["status"]))
    kept = [pair for pair in start["headers"] if pair[0].lower() == b"x-request-id"]
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *kept]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _is_full_answer(status: int, body: bytes) -> bool:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return False
    return status == 200 and isinstance(answer, dict) and bool(answer)

"""The outermost wall around /hooks/: what never reaches a hook's view must not let a tool run either.

A wrong Host, a body that cannot be read, an address that does not exist, a middleware that breaks: Django answers
those with a status or a page of its own, and an agent takes some of them for a yes. Here they become a deny.
"""

import json
import logging

from approvals.hooks import claude_code

logger = logging.getLogger("handrail.hooks")
PREFIX = "/hooks/"
WHY = "Handrail could not read this call ({status}), so nothing is allowed."


def fail_closed(app):
    """Wrap an ASGI application: under /hooks/ it answers 200 with a full JSON object, or it denies."""

    async def guarded(scope, receive, send):
        if scope["type"] != "http" or not scope["path"].startswith(PREFIX):
            await app(scope, receive, send)
            return
        start, body = {"status": 500, "headers": []}, []

        async def keep(message):
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
            elif message["type"] == "http.response.body":
                body.append(message.get("body", b""))

        try:
            await app(scope, receive, keep)
        except Exception:
            logger.exception("a hook failed outside its view")
        await _send(send, start, b"".join(body))

    return guarded


async def _send(send, start: dict, body: bytes):
    if not _is_full_answer(start["status"], body):
        body = json.dumps(claude_code.deny(WHY.format(status=start["status"]))).encode()
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

"""Authenticate WebSockets: a signed-in person by cookie, or a bearer token's caller.

Checked again every RECHECK_INTERVAL seconds: a socket outlives a sign-out, a revoked token and a lost membership.
"""

import contextlib
import logging
from urllib.parse import urlsplit

from asgiref.sync import sync_to_async
from autobahn.exception import Disconnected  # comes with daphne
from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest

from dashboard.database.errors import is_away
from dashboard.door.entering import let_in_socket
from dashboard.net.desk_name import session_key
from dashboard.people.access import Caller
from dashboard.people.second_factor_rule import caller_in
from dashboard.people.tokens import find_token
from dashboard.problems import Problem

logger = logging.getLogger("handrail.sockets")
RECHECK_INTERVAL = 20  # seconds; with the feed's slowest check (5 s), a removed person gets nothing after 30 s
NOT_SIGNED_IN = 4401
TRY_AGAIN = 1013  # of WebSocket itself: the database is away


def origin_of(url: str) -> str:
    """Return scheme, host and port as browsers write them in the Origin header."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    port = "" if parts.port in (None, {"http": 80, "https": 443}[parts.scheme]) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


OWN_ORIGIN = origin_of(settings.HANDRAIL_DESK_URL).encode()


async def who_calls(scope, verb: str) -> Caller | None:
    """Return the caller as of now; None if unauthenticated, without a team, or an agent to which the verb is closed."""
    return await sync_to_async(_by_token if _bearer(scope) else _by_session)(scope, verb)


def _bearer(scope) -> str:
    scheme, _, token = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1").partition(" ")
    return token if scheme.lower() == "bearer" else ""


def _by_token(scope, verb: str) -> Caller | None:
    try:
        return let_in_socket(find_token(_bearer(scope)), verb)
    except Problem:
        return None


def _by_session(scope, verb: str) -> Caller | None:
    request = HttpRequest()
    request.session = SessionStore(session_key(scope["cookies"]))
    request.user = get_user(request)
    caller = caller_in(request)
    return caller if caller.team_ids else None


def drop_late(application):
    """Drop messages that a consumer still sends after the viewer disconnected, before it learns of that."""

    async def route(scope, receive, send):
        async def say(message):
            with contextlib.suppress(Disconnected):
                await send(message)

        await application(scope, receive, say)

    return route


def own_origin_or_token(application):
    """Accept a socket only from our own origin, or with a bearer token, which no page can put in a header."""

    async def route(scope, receive, send):
        allowed = _bearer(scope) or dict(scope["headers"]).get(b"origin") == OWN_ORIGIN
        try:
            await (application if allowed else WebsocketDenier())(scope, receive, send)
        except Exception as error:
            if not is_away(error):
                raise
            logger.warning("a socket is closed: %s", error)
            await send({"type": "websocket.close", "code": TRY_AGAIN})

    return route

"""Who is at the other end of a socket: a signed-in person by cookie, or whoever a bearer token speaks for.

Asked again every RECHECK seconds, because a socket outlives a sign-out, a revoked token and a lost membership.
"""

from asgiref.sync import sync_to_async
from channels.security.websocket import AllowedHostsOriginValidator
from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.sessions.backends.db import SessionStore
from django.http import HttpRequest

from dashboard.access import Caller, caller_by_token, caller_of
from dashboard.tokens import find_token

RECHECK = 20  # with the slowest look at the feed (5 s) between, whoever is removed hears nothing more after 30 s
NOT_SIGNED_IN = 4401


async def who_calls(scope) -> Caller | None:
    """The caller as of now; None for nobody, or for somebody without a team."""
    return await sync_to_async(_by_token if _bearer(scope) else _by_session)(scope)


def _bearer(scope) -> str:
    scheme, _, token = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1").partition(" ")
    return token if scheme.lower() == "bearer" else ""


def _by_token(scope) -> Caller | None:
    token = find_token(_bearer(scope))
    return caller_by_token(token) if token else None


def _by_session(scope) -> Caller | None:
    request = HttpRequest()
    request.session = SessionStore(scope["cookies"].get(settings.SESSION_COOKIE_NAME))
    caller = caller_of(get_user(request))
    return caller if caller.team_ids else None


def own_origin_or_token(application):
    """A page may open sockets only from our own origin; a program shows a token, which no page can put in a header."""
    checked = AllowedHostsOriginValidator(application)

    async def route(scope, receive, send):
        await (application if _bearer(scope) else checked)(scope, receive, send)

    return route

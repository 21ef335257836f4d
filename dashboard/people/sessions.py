"""Where a person is signed in: the browsers' sessions, when each was last used, and how they are ended.

allauth's app `usersessions` has the rows; they are written here, since its own middleware writes at every request.
"""

import logging
import re
from dataclasses import dataclass

from allauth.account.adapter import get_adapter
from allauth.usersessions.models import UserSession
from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.db import OperationalError, transaction
from django.utils.crypto import constant_time_compare
from django.utils.decorators import sync_and_async_middleware

from dashboard.database import clock
from dashboard.database.batches import in_batches
from dashboard.database.row_locks import locked
from dashboard.database.threads import query_in_thread
from dashboard.models import Actor
from dashboard.people.sign_ins import record_for_person
from dashboard.problems import not_found

logger = logging.getLogger("handrail.sessions")
NOTED_EVERY = 60  # seconds between two writes of one session's last use
MAX_AGENT = 200
NO_ADDRESS = "0.0.0.0"
BROWSERS = {"Edg": "Edge", "OPR": "Opera", "Firefox": "Firefox", "Chrome": "Chrome", "Safari": "Safari"}
SYSTEMS = {"Android": "Android", "iPhone": "iPhone", "iPad": "iPad", "Mac OS X": "macOS", "Windows": "Windows"}


@dataclass(frozen=True)
class SignedIn:
    """One session that signs a person in."""

    row: UserSession
    how: str  # "password", "link", …; "" if not known

    @property
    def device(self) -> str:
        return device_name(self.row.user_agent)

    @property
    def key(self) -> str:
        return self.row.session_key


@sync_and_async_middleware
def note_use(get_response):
    """Write when a session was last used, and from where; at most once a minute."""
    if iscoroutinefunction(get_response):

        async def middleware(request):
            response = await get_response(request)
            if _is_due(request):
                await query_in_thread(write, request, request._cached_user)
            return response

        markcoroutinefunction(middleware)
        return middleware

    def middleware(request):
        response = get_response(request)
        if _is_due(request):
            write(request, request._cached_user)
        return response

    return middleware


def _is_due(request) -> bool:
    """Return True if a signed-in person was looked up for this request and the session's use is not noted yet."""
    user, key = getattr(request, "_cached_user", None), request.session.session_key
    return bool(key and user and user.is_authenticated and cache.add(f"session-used:{key}", True, NOTED_EVERY))


def write(request, user):
    """Write that this session is used now, except when the disk is full: that must not keep anybody from reading."""
    try:
        address = get_adapter().get_client_ip(request)
    except PermissionDenied:
        address = NO_ADDRESS
    now, agent = clock.now(), request.headers.get("User-Agent", "")[:MAX_AGENT]
    key = request.session.session_key
    row = UserSession(user=user, session_key=key, ip=address, user_agent=agent, created_at=now, last_seen_at=now)
    changes = ["user", "ip", "user_agent", "last_seen_at"]
    try:
        UserSession.objects.bulk_create(
            [row], update_conflicts=True, unique_fields=["session_key"], update_fields=changes
        )
    except OperationalError:
        logger.warning("the last use of a session could not be stored", exc_info=True)


def of(user) -> list[SignedIn]:
    """Return the sessions that sign the person in now, the last used first."""
    rows = list(UserSession.objects.filter(user=user).order_by("-last_seen_at", "-pk"))
    live = Session.objects.filter(session_key__in=[row.session_key for row in rows], expire_date__gt=clock.now())
    stored = {session.session_key: session.get_decoded() for session in live}
    return [
        SignedIn(row, (stored[row.session_key].get("signed_in") or {}).get("how", ""))
        for row in rows
        if _signs_in(stored.get(row.session_key, {}), user)
    ]


def _signs_in(stored: dict, user) -> bool:
    same = str(stored.get(SESSION_KEY)) == str(user.pk)
    return same and constant_time_compare(stored.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash())


@transaction.atomic
def end(user, pk, *, by: Actor) -> str:
    """End one session of the person and return its key. Problem 404 if it is not one of theirs."""
    row = locked(UserSession.objects.filter(user=user, pk=pk)).first()
    if row is None:
        raise not_found("session")
    _end([row.session_key])
    record_for_person(user, "person.session_ended", actor=by, device=device_name(row.user_agent))
    return row.session_key


@transaction.atomic
def end_all(user, *, by: Actor, but: str | None = None) -> list[str]:
    """End all sessions of the person but the one with the key `but`; return their keys.

    Every stored session is read: one that began before its use was noted here must end as well.
    """
    live = Session.objects.filter(expire_date__gt=clock.now()).exclude(session_key=but or "")
    keys = [
        session.session_key
        for session in in_batches(live)
        if str(session.get_decoded().get(SESSION_KEY)) == str(user.pk)
    ]
    keys += UserSession.objects.filter(user=user).exclude(session_key=but or "").values_list("session_key", flat=True)
    keys = sorted(set(keys))
    _end(keys)
    if keys:
        record_for_person(user, "person.sessions_ended", actor=by, count=len(keys))
    return keys


def _end(keys: list[str]):
    Session.objects.filter(session_key__in=keys).delete()
    UserSession.objects.filter(session_key__in=keys).delete()


def forget_expired():
    """Remove what is left of sessions that are over."""
    Session.objects.filter(expire_date__lt=clock.now()).delete()
    UserSession.objects.exclude(session_key__in=Session.objects.values("session_key")).delete()


def device_name(user_agent: str) -> str:
    """Return a short name such as "Firefox on Android"."""
    # pattern: a mark is one of the words above
    browser = next((name for mark, name in BROWSERS.items() if re.search(rf"\b{mark}[/A]", user_agent)), "Browser")
    system = next((name for mark, name in SYSTEMS.items() if mark in user_agent), "")
    system = system or ("Linux" if "Linux" in user_agent else "")
    return f"{browser} on {system}" if system else browser

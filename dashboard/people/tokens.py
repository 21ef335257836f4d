"""Bearer tokens and one-time links: random, shown once, stored as SHA-256."""

import base64
import hashlib
import logging
import secrets
from collections.abc import Iterable
from datetime import timedelta

from django.db import OperationalError, transaction
from django.db.models import CharField, DateTimeField, Q
from django.utils.crypto import salted_hmac

from dashboard.database import clock
from dashboard.database.prepared import Prepared, Slot
from dashboard.models import Actor, Event, SignInLink, Team, Token
from dashboard.problems import conflict

logger = logging.getLogger("handrail.tokens")


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _written(random: bytes) -> str:
    return f"hr_{random[:4].hex()}_{base64.urlsafe_b64encode(random[4:]).decode().rstrip('=')}"


def derived(what: str) -> str:
    """Return a token that this installation can derive again at any time, so that it need not be stored."""
    return _written(salted_hmac("handrail.tokens.derived", what, algorithm="sha512").digest()[:36])


def make_token(
    team, *, agent=None, user=None, workspace=None, expires_at=None, for_run=False, plain: str | None = None
) -> str:
    """Create a token for exactly one of agent and user; the return value is the only copy."""
    plain = plain or _written(secrets.token_bytes(36))
    prefix = plain[: len("hr_") + 8]
    Token.objects.create(
        team=team,
        agent=agent,
        user=user,
        workspace=workspace,
        prefix=prefix,
        sha256=sha256(plain),
        for_run=for_run,
        expires_at=expires_at,
    )
    return plain


@transaction.atomic
def revoke(token: Token, *, by: Actor):
    """Revoke a token for good and record the event. Raise Problem 409 if it was revoked before."""
    Team.objects.take_turn(token.team_id)
    if not Token.objects.filter(pk=token.pk, revoked_at=None).update(revoked_at=clock.now()):
        raise conflict(f"Token {token.prefix}… is already revoked.")
    data = {"prefix": token.prefix, "of": str(token.agent or token.user)}
    Event.objects.record(token.team, actor=by, verb="token.revoked", subject=token, data=data)


def find_token(plain: str) -> Token | None:
    """Return the live token, or None; its last use is stored at most once a minute."""
    return _in_use(_LIVE_BY_SHA256.rows(sha256=sha256(plain), now=clock.now()))


def live_token(pk) -> Token | None:
    """Return the token with this id if it is valid, and record its use. For credentials that depend on a token."""
    return _in_use(_live(clock.now()).filter(pk=pk))


def _live(now):
    return Token.objects.live(now).select_related("agent", "agent__owner", "user", "team")


_LIVE_BY_SHA256 = Prepared(lambda: _live(Slot("now", DateTimeField())).filter(sha256=Slot("sha256", CharField())))


def _in_use(found: Iterable[Token]) -> Token | None:
    token = next(iter(found), None)
    if token:
        _note_use(token)
    return token


def _note_use(token: Token):
    """Store the last use, except when the disk is full: a failed write must not keep anybody from reading."""
    now = clock.now()
    if token.last_used_at and now - token.last_used_at <= timedelta(minutes=1):
        return
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - timedelta(minutes=1))
    try:
        Token.objects.filter(stale, pk=token.pk).update(last_used_at=now)
        if token.agent_id:
            type(token.agent).objects.filter(pk=token.agent_id).update(last_seen_at=now)
    except OperationalError:
        logger.warning("the last use of a token could not be stored", exc_info=True)


def make_sign_in_link(user, *, valid: timedelta = timedelta(hours=1)) -> str:
    """Create a one-time secret for /sign-in/SECRET/; the person's earlier unused ones expire."""
    SignInLink.objects.filter(user=user, used_at=None).update(expires_at=clock.now())
    plain = secrets.token_urlsafe(32)
    SignInLink.objects.create(user=user, sha256=sha256(plain), expires_at=clock.now() + valid)
    return plain


def use_sign_in_link(plain: str):
    """Use up a link and return its person; None if it was used, has expired or never existed."""
    now = clock.now()
    links = SignInLink.objects.filter(sha256=sha256(plain))
    if not links.filter(used_at=None, expires_at__gt=now, user__is_active=True).update(used_at=now):
        return None
    return links.select_related("user").get().user


def end_sign_in_links(user):
    """Expire the person's unused links."""
    SignInLink.objects.filter(user=user, used_at=None, expires_at__gt=clock.now()).update(expires_at=clock.now())

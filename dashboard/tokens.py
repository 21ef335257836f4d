"""Bearer tokens and one-time links: random, shown once, kept as SHA-256."""

import base64
import hashlib
import logging
import secrets
from datetime import timedelta

from django.db import OperationalError
from django.db.models import Q
from django.utils.crypto import salted_hmac

from dashboard import clock
from dashboard.models import SignInLink, Token

logger = logging.getLogger("handrail.tokens")


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _written(random: bytes) -> str:
    return f"hr_{random[:4].hex()}_{base64.urlsafe_b64encode(random[4:]).decode().rstrip('=')}"


def derived(what: str) -> str:
    """A token that this installation can work out again at any time, so that it need not be kept anywhere."""
    return _written(salted_hmac("handrail.tokens.derived", what, algorithm="sha512").digest()[:36])


def make_token(
    team, *, agent=None, user=None, workspace=None, expires_at=None, scopes=(), plain: str | None = None
) -> str:
    """Make a token for exactly one of agent and user; the return value is the only time it is seen."""
    plain = plain or _written(secrets.token_bytes(36))
    prefix = plain[: len("hr_") + 8]
    Token.objects.create(
        team=team,
        agent=agent,
        user=user,
        workspace=workspace,
        prefix=prefix,
        sha256=sha256(plain),
        scopes=list(scopes),
        expires_at=expires_at,
    )
    return plain


def find_token(plain: str) -> Token | None:
    """The live token, its last use noted at most once a minute; None for anything else."""
    live = Token.objects.live().select_related("agent", "agent__owner", "user", "team")
    token = live.filter(sha256=sha256(plain)).first()
    if token:
        _note_use(token)
    return token


def _note_use(token: Token):
    """A database that takes no writes now, for want of room, must keep nobody from reading."""
    now = clock.now()
    if token.last_used_at and now - token.last_used_at <= timedelta(minutes=1):
        return
    stale = Q(last_used_at=None) | Q(last_used_at__lt=now - timedelta(minutes=1))
    try:
        Token.objects.filter(stale, pk=token.pk).update(last_used_at=now)
        if token.agent_id:
            type(token.agent).objects.filter(pk=token.agent_id).update(last_seen_at=now)
    except OperationalError:
        logger.warning("the last use of a token could not be noted", exc_info=True)


def make_sign_in_link(user, *, valid: timedelta = timedelta(hours=1)) -> str:
    """A one-time secret for /sign-in/SECRET/; earlier unused ones of this person end."""
    SignInLink.objects.filter(user=user, used_at=None).update(expires_at=clock.now())
    plain = secrets.token_urlsafe(32)
    SignInLink.objects.create(user=user, sha256=sha256(plain), expires_at=clock.now() + valid)
    return plain


def use_sign_in_link(plain: str):
    """The person, once; None when it was used, has expired or never was."""
    now = clock.now()
    links = SignInLink.objects.filter(sha256=sha256(plain))
    if not links.filter(used_at=None, expires_at__gt=now, user__is_active=True).update(used_at=now):
        return None
    return links.select_related("user").get().user

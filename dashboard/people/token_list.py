"""The tokens of a team's agents and people in one list: when they end, which are unused, and revoking those."""

from datetime import datetime, timedelta

from django.db.models import Q, QuerySet
from django.utils.translation import gettext_lazy

from dashboard.database import clock
from dashboard.models import Actor, Token
from dashboard.people import provisioning
from dashboard.problems import invalid

DEFAULT_DAYS = 90
# Days that a new token is valid, in words; "0": it never expires.
VALID_FOR = {
    "30": gettext_lazy("30 days"),
    "90": gettext_lazy("90 days"),
    "365": gettext_lazy("a year"),
    "0": gettext_lazy("never expires"),
}
UNUSED_DAYS = 90
MAX_DAYS = 3650
STATES = {
    "live": gettext_lazy("Valid"),
    "unused": gettext_lazy("Unused for 90 days"),
    "never": gettext_lazy("Never expires"),
    "soon": gettext_lazy("Expires within 14 days"),
    "expired": gettext_lazy("Expired"),
    "revoked": gettext_lazy("Revoked"),
}
KINDS = {
    "agent": gettext_lazy("Agents"),
    "person": gettext_lazy("People"),
    "run": gettext_lazy("Programs of a run"),
}
SOON = timedelta(days=14)


def expiry_in(days: str | int) -> datetime | None:
    """Return when a token that is made now ends; None for 0 days: never. Problem 422 for anything else."""
    text = str(days).strip() or str(DEFAULT_DAYS)
    if not text.isascii() or not text.isdecimal() or int(text[:9]) > MAX_DAYS:
        raise invalid(f"A token is valid for 1 to {MAX_DAYS} days, or for 0: until it is revoked.")
    return clock.now() + timedelta(days=int(text)) if int(text) else None


def of_teams(team_ids) -> QuerySet:
    """Return the tokens of the teams with whom they belong to."""
    return Token.objects.filter(team__in=team_ids).select_related("team", "agent__owner", "user", "workspace")


def in_state(tokens: QuerySet, state: str) -> QuerySet:
    """Filter by a name of STATES; Problem 422 for another one."""
    now = clock.now()
    live = Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=now))
    long_ago = now - timedelta(days=UNUSED_DAYS)
    filters = {
        "live": live,
        "unused": live & (Q(last_used_at__lt=long_ago) | Q(last_used_at=None, created_at__lt=long_ago)),
        "never": live & Q(expires_at=None, for_run=False),
        "soon": live & Q(expires_at__lt=now + SOON, for_run=False),
        "expired": Q(revoked_at=None, expires_at__lte=now),
        "revoked": Q(revoked_at__isnull=False),
    }
    if state not in filters:
        raise invalid(f"A state is one of {', '.join(filters)}.")
    return tokens.filter(filters[state])


def of_kind(tokens: QuerySet, kind: str) -> QuerySet:
    """Filter by a name of KINDS; Problem 422 for another one."""
    filters = {
        "agent": Q(agent__isnull=False, for_run=False),
        "person": Q(user__isnull=False),
        "run": Q(for_run=True),
    }
    if kind not in filters:
        raise invalid(f"A kind is one of {', '.join(filters)}.")
    return tokens.filter(filters[kind])


def named(text: str) -> Q:
    """Return the filter of tokens by a part of their prefix, or of the name of whom they belong to."""
    return Q(prefix__icontains=text) | Q(agent__name__icontains=text) | Q(user__username__icontains=text)


def state_of(token: Token) -> str:
    """Return the state of a token: "revoked", "expired", "unused" or "live"."""
    now = clock.now()
    if token.revoked_at:
        return "revoked"
    if token.expires_at and token.expires_at <= now:
        return "expired"
    return "unused" if (token.last_used_at or token.created_at) < now - timedelta(days=UNUSED_DAYS) else "live"


def revoke_unused(team, *, by: Actor) -> int:
    """Revoke the tokens of the team that nobody used for 90 days, each with its event; return how many."""
    return provisioning.revoke(in_state(Token.objects.filter(team=team, for_run=False), "unused"), by=by)

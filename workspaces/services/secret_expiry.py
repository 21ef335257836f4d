"""Warnings before a secret expires: an event, which is an alert, and rows of the Desk and of the page of secrets."""

from datetime import timedelta

from django.db import transaction
from django.db.models import F, Q

from dashboard.database import clock
from dashboard.models import Actor, Event, Team
from workspaces.models import Secret

WARNED_BEFORE = timedelta(days=7)
CHECK = Actor.system("secrets")


def warn_all():
    """Warn of each secret that expires within a week, once for each expiry; the queue calls this every hour."""
    now = clock.now()
    not_warned = Q(warned_expiry=None) | ~Q(warned_expiry=F("expires_at"))
    for secret in Secret.objects.filter(not_warned, expires_at__gt=now, expires_at__lte=now + WARNED_BEFORE):
        _warn(secret)


@transaction.atomic
def _warn(secret: Secret):
    Team.objects.take_turn(secret.team_id)
    not_warned = Q(warned_expiry=None) | ~Q(warned_expiry=secret.expires_at)
    rows = Secret.objects.filter(not_warned, pk=secret.pk, expires_at=secret.expires_at)
    if rows.update(warned_expiry=secret.expires_at):
        data = {"name": secret.name, "scope": secret.scope, "until": secret.expires_at.isoformat(timespec="seconds")}
        Event.objects.record(secret.team_id, actor=CHECK, verb="secret.expires_soon", subject=secret, data=data)


def is_near(secret: Secret) -> bool:
    """Return whether it expires within a week, or has expired."""
    return secret.expires_at is not None and secret.expires_at <= clock.now() + WARNED_BEFORE


def ending(caller) -> list[Secret]:
    """Return the secrets that the caller manages and that end within a week or have ended, the next one first."""
    teams = [team for team in caller.team_ids if caller.can("manage_secrets", team)]
    rows = Secret.objects.filter(team__in=teams, expires_at__lte=clock.now() + WARNED_BEFORE)
    return list(rows.select_related("team").order_by("expires_at")[:10])

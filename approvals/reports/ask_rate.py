"""How often people are asked: approvals asked for in 100 calls, and in each hour in which an agent made a call."""

from datetime import timedelta

from django.db.models import CharField, Count, Exists, OuterRef, Q
from django.db.models.functions import Cast, Substr

from approvals.models import Decision, Tier

DAYS = 7
WITHOUT_ASKING = (Tier.LOW, Tier.MEDIUM, Tier.FORBIDDEN)
# Calls for which a person was asked, also those that a person then edited down to what runs without asking.
ANSWERED = Exists(Decision.objects.filter(action=OuterRef("pk")))
ASKED = (~Q(tier__in=WITHOUT_ASKING) & Q(grant=None)) | Q(ANSWERED)
HOUR = len("2026-01-31 23")  # the beginning of a time in text, up to its hour


def ask_rate(actions, now, days: int = DAYS) -> dict:
    """Return {days, calls, asked, active_hours, per_100_calls, per_active_hour} of these actions, in one query."""
    hour = Substr(Cast("created_at", CharField()), 1, HOUR)
    found = actions.filter(created_at__gte=now - timedelta(days=days)).aggregate(
        calls=Count("pk"),
        asked=Count("pk", filter=ASKED),
        active_hours=Count(hour, distinct=True),
    )
    return {
        "days": days,
        **found,
        "per_100_calls": per_100(found["asked"], found["calls"]),
        "per_active_hour": round(found["asked"] / found["active_hours"], 1) if found["calls"] else 0.0,
    }


def per_100(asked: int, calls: int) -> float:
    return round(100 * asked / calls, 1) if calls else 0.0

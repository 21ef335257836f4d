"""The address of a team's tickets: a pattern with `{ticket}` in it."""

import re
from urllib.parse import urlsplit

from django.db import transaction

from dashboard.models import Actor, Event, Team
from dashboard.problems import invalid

SAMPLE = "https://tracker.example/{ticket}"
SCHEMES = ("https", "http")  # never javascript: or data:, which would run on our page


@transaction.atomic
def change(team: Team, pattern: str, *, by: Actor):
    """Set the pattern; "" shows tickets without a link. Problem 422 for one that is no safe address."""
    pattern = check(pattern.strip())
    if Team.objects.filter(pk=team.pk).exclude(ticket_url=pattern).update(ticket_url=pattern):
        Event.objects.record(team, actor=by, verb="team.ticket_url_changed", subject=team, data={"address": pattern})


def check(pattern: str) -> str:
    if not pattern:
        return ""
    try:
        parts = urlsplit(pattern)
        host = parts.hostname
    except ValueError:
        raise invalid(f"That is not an address. Write it like {SAMPLE}.") from None
    if parts.scheme not in SCHEMES or not host or parts.username is not None:
        raise invalid(f"The address must begin with https:// or http:// and a host. Write it like {SAMPLE}.")
    if pattern.count("{ticket}") != 1 or "{" in parts.netloc:
        raise invalid(f"The address must have {{ticket}} once, after the host. Write it like {SAMPLE}.")
    if len(pattern) > 300 or re.search(r"[^\x21-\x7e]|[<>\"'`\\]", pattern):
        raise invalid("The address can have at most 300 characters, without spaces and quotes.")
    return pattern

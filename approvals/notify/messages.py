"""What a notification says: for a device in full and encrypted, for a channel the team, the number and a link."""

from datetime import timedelta
from html import unescape

from django.conf import settings
from django.db.models import Count, Q
from django.urls import reverse
from django.utils.html import strip_tags

from approvals.models import Action, Channel, NotificationSettings, Status, Tier
from approvals.notify.routing import zone_of
from approvals.transitions import winner
from dashboard import redaction
from dashboard.access import caller_of
from dashboard.models import Team
from dashboard.templatetags.handrail import TIERS, UNDO
from dashboard.visible_text import visible

MAX_TITLE, MAX_REASON = 180, 400  # characters; a push holds about 3,900 bytes
ENDED = {
    Status.DENIED: "denied",
    Status.EXPIRED: "expired, did not run",
    Status.CANCELLED: "cancelled",
}


def shown(text: str, most: int) -> str:
    """Return untrusted text for a notification: one line, hidden characters as their names, without known secrets."""
    plain = unescape(strip_tags(visible(redaction.clean(text)[: most * 2], one_line=True)))
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def address_of(action: Action) -> str:
    """Return the address of the action's card, as people's browsers open it."""
    return settings.HANDRAIL_DESK_URL + reverse("action", args=[action.pk])


def ask(action: Action, wanted: NotificationSettings, *, private: bool) -> dict:
    """Return the words of a notification about a pending action."""
    if private:
        return {"title": "Needs approval", "body": "Open Handrail to see what it is."}
    reasons = action.revisions.get(number=action.revision).all_reasons
    where = f"{shown(str(action.agent), 80)}{f', {action.workspace.key}' if action.workspace else ''}"
    until = action.expires_at.astimezone(zone_of(wanted))
    title = f"{TIERS[action.tier][0]}, {UNDO[action.undo][0].lower()}: {shown(action.title, MAX_TITLE)}"
    reason = shown(reasons[0], MAX_REASON) if reasons else ""
    return {"title": title, "body": f"{where}. Until {until:%H:%M}.\n{reason}".strip()}


def closed(action: Action) -> dict:
    """Return the words that replace a notification that needs nobody any more."""
    won = winner(action) or {}
    word = ENDED.get(action.status, "approved" if action.decided_at else "closed")
    by = won.get("by") if action.status not in (Status.EXPIRED,) else ""
    return {"title": f"A-{action.number}: {word}{f' by {shown(by, 60)}' if by else ''}", "body": ""}


def for_channel(action: Action, channel: Channel) -> tuple[str, str]:
    """Return title and body for a channel, whose service can read them; the title of the action only by choice."""
    title = f"{action.team.name}: A-{action.number} needs approval"
    lines = [shown(action.title, MAX_TITLE)] if channel.with_title else []
    return title, "\n".join([*lines, address_of(action)])


def digest(user, now) -> tuple[str, str]:
    """Return title and body of the morning digest: counts for each of the person's teams, and no command text."""
    caller, lines = caller_of(user), []
    pending = Q(status=Status.PENDING, expires_at__gt=now)
    recent = Q(created_at__gte=now - timedelta(days=1))
    for team in Team.objects.visible_to(caller).order_by("name"):
        found = Action.objects.filter(team=team).aggregate(
            waiting=Count("pk", filter=pending),
            quiet=Count("pk", filter=recent & (Q(tier__in=[Tier.LOW, Tier.MEDIUM]) | Q(grant__isnull=False))),
            denied=Count("pk", filter=recent & Q(status=Status.DENIED)),
            expired=Count("pk", filter=recent & Q(status=Status.EXPIRED)),
            failed=Count("pk", filter=recent & Q(status__in=[Status.FAILED, Status.UNCERTAIN])),
        )
        lines.append(
            f"{team.name}: {found['waiting']} need approval. Last 24 hours: {found['quiet']} auto-approved, "
            f"{found['denied']} denied, {found['expired']} expired, {found['failed']} failed or unclear."
        )
    return "Handrail this morning", "\n".join([*lines, f"{settings.HANDRAIL_DESK_URL}/"])

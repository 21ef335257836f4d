"""What a notification says: for a device in full and encrypted, for a channel the team, the number and a link."""

from html import unescape

from django.conf import settings
from django.urls import reverse
from django.utils.html import strip_tags
from django.utils.translation import gettext, gettext_lazy, ngettext

from approvals.actions.transitions import winner
from approvals.evaluation.duty import settings_of, zone_of
from approvals.evaluation.judge import content
from approvals.models import Action, Channel, NotificationSettings, Status, WayBack, WayBackState
from approvals.notify.going import of_owner
from approvals.notify.morning import TeamMorning, morning_of
from approvals.questions import own_questions
from dashboard.database import clock
from dashboard.keys import redaction
from dashboard.people.access import caller_of
from dashboard.text.labels import TIERS, UNDO
from dashboard.text.visible_text import visible
from workspaces.services.retention import What

MAX_GOING = 10  # workspaces that a warning names
GOING_AT = "/#desk-going"
MORNING_AT = "/morning/"
MAX_TITLE, MAX_REASON = 180, 400  # characters; a push holds about 3,900 bytes
ENDED = {
    Status.DENIED: gettext_lazy("denied"),
    Status.EXPIRED: gettext_lazy("expired, did not run"),
    Status.CANCELLED: gettext_lazy("cancelled"),
}


def shown(text: str, most: int) -> str:
    """Return untrusted text for a notification: one line, hidden characters as their names, without known secrets."""
    plain = unescape(strip_tags(visible(redaction.clean(text)[: most * 2], one_line=True)))
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def address_of(action: Action) -> str:
    """Return the address of the action's card, as people's browsers open it."""
    return settings.HANDRAIL_DESK_URL + reverse("action", args=[action.pk])


def ask(action: Action, wanted: NotificationSettings, *, private: bool, soon: bool = False) -> dict:
    """Return the words of a notification about a pending action; `soon`: one that expires before anybody looked."""
    if private:
        title = gettext("Expires soon, nobody has looked") if soon else gettext("Needs approval")
        return {"title": title, "body": gettext("Open Handrail to see what it is.")}
    reasons = action.revisions.get(number=action.revision).all_reasons
    where = f"{shown(str(action.agent), 80)}{f', {action.workspace.key}' if action.workspace else ''}"
    until = action.expires_at.astimezone(zone_of(wanted))
    is_sought = WayBack.objects.filter(action=action, state=WayBackState.LOOKING).exists()
    undo = str(UNDO["unknown" if is_sought else action.undo][0])
    title = f"{TIERS[action.tier][0]}, {undo[:1].lower()}{undo[1:]}: {shown(action.title, MAX_TITLE)}"
    reason = shown(reasons[0], MAX_REASON) if reasons else ""
    if action.tool in own_questions.TOOLS:
        title = f"{own_questions.LABELS[action.tool]}: {shown(action.title, MAX_TITLE)}"
        reason = shown(own_questions.line_of(action.tool, content(action)["arguments"]), MAX_REASON)
    if soon:
        title = gettext("Expires soon: %(title)s") % {"title": title}
    elif action.asked_of_id == wanted.user_id:
        title = gettext("Asked of you: %(title)s") % {"title": title}
    elif action.escalated_at:
        title = gettext("Nobody has decided yet: %(title)s") % {"title": title}
    said = gettext("%(where)s. Until %(time)s.") % {"where": where, "time": f"{until:%H:%M}"}
    return {"title": title, "body": f"{said}\n{reason}".strip()}


def closed(action: Action) -> dict:
    """Return the words that replace a notification that needs nobody any more."""
    won = winner(action) or {}
    word = ENDED.get(action.status, gettext("approved") if action.decided_at else gettext("closed"))
    by = won.get("by") if action.status not in (Status.EXPIRED,) else ""
    words = gettext("A-%(number)s: %(word)s by %(by)s") if by else "A-%(number)s: %(word)s"
    return {"title": words % {"number": action.number, "word": word, "by": shown(by or "", 60)}, "body": ""}


def for_channel(action: Action, channel: Channel, *, soon: bool = False) -> tuple[str, str]:
    """Return title and body for a channel, whose service can read them; the title of the action only by choice."""
    words = gettext("%(team)s: A-%(number)s expires soon") if soon else gettext("%(team)s: A-%(number)s needs approval")
    title = words % {"team": action.team.name, "number": action.number}
    lines = [shown(action.title, MAX_TITLE)] if channel.with_title else []
    return title, "\n".join([*lines, address_of(action)])


def digest(user, now) -> tuple[str, str]:
    """Return title and body of the morning digest: counts for each of the person's teams, and no command text."""
    lines = [_digest_line(each) for each in morning_of(caller_of(user), now)]
    return gettext("Handrail this morning"), "\n".join([*lines, f"{settings.HANDRAIL_DESK_URL}{MORNING_AT}"])


def _digest_line(found: TeamMorning) -> str:
    words = gettext(
        "%(team)s: %(waiting)s need approval. Last 24 hours: %(quiet)s auto-approved, %(denied)s denied, "
        "%(expired)s expired, %(failed)s failed or unclear."
    )
    parts = [words % {"team": found.team.name, **found.counts}]
    if found.ended:
        parts.append(ngettext("%(n)s task ended.", "%(n)s tasks ended.", found.ended) % {"n": found.ended})
    if found.to_see_to:
        count = len(found.to_see_to)
        parts.append(ngettext("%(n)s agent waits.", "%(n)s agents wait.", count) % {"n": count})
    if found.cost:
        parts.append(gettext("Cost: %(cost)s.") % {"cost": f"{found.cost:,.2f}"})
    if found.odd:
        parts.append(
            ngettext("%(n)s thing looked odd.", "%(n)s things looked odd.", len(found.odd)) % {"n": len(found.odd)}
        )
    return " ".join(parts)


def going(user, *, named: bool) -> tuple[str, str]:
    """Return title and body of the warning that retention takes workspaces of the person; `named`: with their names."""
    found = of_owner(user, settings_of(user))
    title = ngettext(
        "Retention will archive or delete %(n)s workspace of yours soon",
        "Retention will archive or delete %(n)s workspaces of yours soon",
        len(found),
    ) % {"n": len(found)}
    words = {
        What.ARCHIVE: gettext("%(key)s is archived %(at)s"),
        What.TRASH: gettext("%(key)s moves to the trash %(at)s"),
        What.DELETE: gettext("%(key)s is deleted for good %(at)s"),
    }
    lines = [
        words[each.what] % {"key": f"{each.workspace.team.slug}/{each.workspace.key}", "at": clock.in_utc(each.at)}
        for each in found[:MAX_GOING]
        if named
    ]
    if named and len(found) > MAX_GOING:
        lines.append(gettext("and %(n)s more") % {"n": len(found) - MAX_GOING})
    keep = gettext("Keep what you need:")
    return title, "\n".join([*lines, keep, f"{settings.HANDRAIL_DESK_URL}{GOING_AT}"])

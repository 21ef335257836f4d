"""Who of a team is on duty: who may decide, has not gone off duty, and has no quiet hours now."""

import zoneinfo
from datetime import UTC, datetime

from approvals.models import NotificationSettings
from dashboard.people import sole_approver


def settings_of(user) -> NotificationSettings:
    """Return the person's settings; defaults, not stored, if they saved none."""
    try:
        return user.notification_settings
    except NotificationSettings.DoesNotExist:
        return NotificationSettings(user=user)


def people_on_duty(team, now: datetime) -> list:
    """Return the people of the team who may decide and are on duty, by name."""
    rows = sole_approver.approvers(team).select_related("user__notification_settings").order_by("user__username")
    return [row.user for row in rows if is_on_duty(settings_of(row.user), getattr(team, "pk", team), now)]


def is_on_duty(wanted: NotificationSettings, team_id, now: datetime) -> bool:
    """Return whether the person of these settings is on duty for a team now."""
    return wanted.on_duty and str(team_id) not in wanted.teams_off and not in_quiet_hours(wanted, now)


def in_quiet_hours(wanted: NotificationSettings, now: datetime) -> bool:
    """Return whether it is a quiet hour of the person."""
    if wanted.quiet_from is None or wanted.quiet_until is None or wanted.quiet_from == wanted.quiet_until:
        return False
    time, start, end = now.astimezone(zone_of(wanted)).time(), wanted.quiet_from, wanted.quiet_until
    return start <= time < end if start < end else time >= start or time < end


def zone_of(wanted: NotificationSettings):
    try:
        return zoneinfo.ZoneInfo(wanted.zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return UTC

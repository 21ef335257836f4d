"""Tell owners of workspaces that retention takes them soon: one message for each owner and day, with all of theirs."""

from datetime import datetime, timedelta

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import Q

from approvals.evaluation.duty import in_quiet_hours, settings_of, zone_of
from approvals.models import DeliveryKind, NotificationSettings
from approvals.notify.notices import deliver_to_channels, deliver_to_devices, receivers
from dashboard.people.access import caller_of
from workspaces.services import retention
from workspaces.services.retention import Going

LAST = timedelta(days=1)  # before it goes, within which an owner is reminded once more


def of_owner(user, wanted: NotificationSettings) -> list[Going]:
    """Return the person's own workspaces that retention acts on soon, without those that they muted."""
    return [
        each
        for each in retention.going(caller_of(user))
        if each.workspace.owner_id == user.pk
        and str(each.workspace.team_id) not in wanted.teams_off
        and f"{each.workspace.team.slug}/{each.workspace.key}" not in wanted.workspaces_off
    ]


def warn(now: datetime) -> int:
    """Warn the owners who have a device or a channel, are on duty and have no quiet hours now; return how many."""
    people = get_user_model().objects.filter(pk__in=receivers(), is_active=True)
    return sum(_warn(user, now) for user in people.select_related("notification_settings"))


def _warn(user, now: datetime) -> bool:
    """Warn one owner of what was not told yet, at most once on a day of theirs."""
    wanted = settings_of(user)
    if not wanted.on_duty or in_quiet_hours(wanted, now):
        return False
    told = sorted(name for each in of_owner(user, wanted) for name in _names(each, now))
    if set(told) <= set(wanted.going_told):
        return False
    day = now.astimezone(zone_of(wanted)).date()
    with transaction.atomic():
        NotificationSettings.objects.get_or_create(user=user)
        rows = NotificationSettings.objects.filter(Q(going_on=None) | ~Q(going_on=day), pk=user.pk)
        if not rows.update(going_on=day, going_told=told):
            return False
        deliver_to_devices(user, DeliveryKind.GOING, now)
        deliver_to_channels(user.pk, DeliveryKind.GOING, now)
    return True


def _names(each: Going, now: datetime) -> list[str]:
    """Return the keys of its warnings that are due: one when it is known, one more on its last day."""
    name = f"{each.what} {each.workspace.pk}"
    return [name, f"{name} last"] if each.at - now <= LAST else [name]

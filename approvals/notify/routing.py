"""Who is told about an action: reviewers on duty whose settings want it, outside their quiet hours."""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.utils.translation import get_language

from approvals.actions import escalation
from approvals.actions.decisions import may_approve_scope
from approvals.evaluation.duty import in_quiet_hours, settings_of
from approvals.models import Action, NotificationSettings, Tier
from dashboard.models import Membership
from dashboard.people.access import MATRIX, ROLES, Caller


@dataclass(frozen=True)
class Recipient:
    """A person who may decide actions of some teams, with their settings."""

    user: object
    roles: dict  # team id: role
    wants: NotificationSettings

    @property
    def caller(self) -> Caller:
        return Caller(roles=self.roles, user=self.user)


def recipients(user_ids) -> list[Recipient]:
    """Return those of these people who may decide something, each with the teams in which they may."""
    deciders = ROLES[ROLES.index(MATRIX["decide"][0]) :]
    rows = Membership.objects.filter(user__in=user_ids, role__in=deciders, user__is_active=True)
    rows = rows.select_related("user", "user__notification_settings")
    people: dict = {}
    for row in rows:
        people.setdefault(row.user_id, (row.user, {}))[1][row.team_id] = row.role
    return [Recipient(user, roles, settings_of(user)) for user, roles in people.values()]


def note_language(user):
    """Send the person's notifications in the language of this request from now on."""
    code = get_language() or settings.LANGUAGE_CODE
    if settings_of(user).language != code:
        NotificationSettings.objects.update_or_create(user=user, defaults={"language": code})


def wants(recipient: Recipient, action: Action) -> bool:
    """Return whether this person wants to be told about the action, quiet hours apart.

    Who was asked by name, or to whom it was passed on, is told whatever kinds of actions they chose while on duty.
    """
    wanted = recipient.wants
    if not wanted.on_duty or action.team_id not in recipient.roles:
        return False
    if action.asked_of_id == recipient.user.pk or escalation.is_passed_to(action, recipient.user.pk):
        return may_approve_scope(action, recipient.caller)
    if str(action.team_id) in wanted.teams_off:
        return False
    if wanted.only_critical and action.tier != Tier.CRITICAL:
        return False
    if action.workspace and f"{action.team.slug}/{action.workspace.key}" in wanted.workspaces_off:
        return False
    return may_approve_scope(action, recipient.caller)


def is_quiet(wanted: NotificationSettings, action: Action, now: datetime) -> bool:
    """Return whether the person's quiet hours keep this action from them now."""
    return in_quiet_hours(wanted, now) and not (wanted.critical_in_quiet and action.tier == Tier.CRITICAL)

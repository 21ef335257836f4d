"""Which events are alerts, and what they say: what an admin should hear of without looking."""

from django.utils.translation import gettext

from dashboard.event_log.sentences import in_words
from dashboard.models import Event, Role

ALWAYS = {
    "approver_group.changed",
    "backup.failed",
    "backup.late",
    "data.purged",
    "host.joined",
    "host.lost",
    "host.removed",
    "identityprovider.added",
    "identityprovider.changed",
    "log.target_added",
    "log.target_removed",
    "person.purged",
    "person.second_factor_reset",
    "policy.file_adopted",
    "policy.saved",
    "retention.late",
    "schedule.budget_met",
    "schedule.failed",
    "secret.expires_soon",
    "store.accepted",
    "store.damaged",
    "store.key_added",
    "system.restored",
    "team.archived",
    "team.groups_changed",
    "team.passkey_not_required",
    "team.second_factor_changed",
    "team.solo_reopened",
    "team.stopped",
}
MAKES_ADMIN = {"person.added", "person.role_changed"}
VERBS = ALWAYS | MAKES_ADMIN


def is_alert(event: Event) -> bool:
    """Return True for what is in ALWAYS, and for a person who becomes admin."""
    return event.verb in ALWAYS or (event.verb in MAKES_ADMIN and event.data.get("role") == Role.ADMIN)


def sentence(event: Event, team) -> str:
    """Return the alert in a sentence. It goes to services outside, so it has no command and no path."""
    said = gettext("A person became admin") if event.verb in MAKES_ADMIN else in_words(event.verb)
    return f"{team}: {said} ({event.actor_label}, {event.at:%H:%M} UTC)"[:300]

"""Tell one person something that is not an action, on their devices and through their channels."""

from django.utils import translation

from approvals.evaluation.duty import settings_of
from approvals.models import DeliveryKind
from approvals.notify import notices
from dashboard.database import clock


def tell_member(person, team_id, words) -> bool:
    """Tell a member of the team who is on duty for it, in their language; `words()` gives the text. False: nobody."""
    if person is None or not person.is_active or not person.memberships.in_force().filter(team=team_id).exists():
        return False
    wanted = settings_of(person)
    if not wanted.on_duty or str(team_id) in wanted.teams_off:
        return False
    with translation.override(wanted.language):
        queue_message(person, words())
    return True


def queue_message(user, text: str):
    """Add the deliveries, in the caller's transaction; the queue sends them. `text` has at most 300 characters."""
    now = clock.now()
    notices.deliver_to_devices(user, DeliveryKind.ALERT, now, text=text[:300])
    notices.deliver_to_channels(user.pk, DeliveryKind.ALERT, now, text=text[:300])

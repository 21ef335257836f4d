"""Tell one person something that is not an action, on their devices and through their channels."""

from approvals.models import DeliveryKind
from approvals.notify import notices
from dashboard import clock


def tell(user, text: str):
    """Add the deliveries, in the caller's transaction; the queue sends them. `text` has at most 300 characters."""
    now = clock.now()
    notices.deliver_to_devices(user, DeliveryKind.ALERT, now, text=text[:300])
    notices.deliver_to_channels(user.pk, DeliveryKind.ALERT, now, text=text[:300])

"""Scheduled tasks of the queue; each must tolerate running late, twice or again."""

from workspaces.models import StoreTask
from workspaces.services import caps, secret_expiry, store_maintenance
from workspaces.services.retention import sweeps


def sweep_retention():
    sweeps.request_for_all()


def collect_garbage():
    store_maintenance.request_for_all(StoreTask.COLLECT)


def verify_stores(full: bool = False):
    """Check each team's store. Damage is recorded as an event and stays on the Desk until a check finds it repaired."""
    store_maintenance.request_for_all(StoreTask.CHECK, full=full)


def check_caps():
    caps.check_all()


def warn_of_secrets():
    secret_expiry.warn_all()


def check_sweeps():
    sweeps.say_if_late()

"""Scheduled tasks of the queue; each must tolerate running late, twice or again."""

from workspaces.models import StoreTask
from workspaces.services import retention, store_maintenance


def sweep_retention():
    retention.sweep()


def collect_garbage():
    store_maintenance.request_for_all(StoreTask.COLLECT)


def verify_stores(full: bool = False):
    """Check each team's store. Damage is recorded as an event and stays on the Desk until a check finds it repaired."""
    store_maintenance.request_for_all(StoreTask.CHECK, full=full)

"""What a Run is told of the snapshots that it was asked to show at /snapshots/NUMBER."""

from workspaces.changes import guarded, stores
from workspaces.drivers.base import DriverError, ShownSnapshot
from workspaces.host import store_keys, team_stores
from workspaces.models import Snapshot
from workspaces.store.mount import process


def shown(workspace, numbers: list[int]) -> dict[int, ShownSnapshot]:
    """Return {number: what the driver mounts}, without secrets, which programs get from no snapshot.

    Raise DriverError where this host cannot mount them, or one is gone; StoreError.
    """
    if numbers and (why := process.why_not()):
        raise DriverError(why)
    return {number: _shown(workspace, number) for number in numbers}


def _shown(workspace, number: int) -> ShownSnapshot:
    snapshot = Snapshot.objects.filter(workspace=workspace, number=number, trashed_at=None).first()
    if snapshot is None:
        raise DriverError(f"Snapshot {number} is gone, so it can't be shown.")
    store, address = stores.opened_here(workspace.team_id), str(team_stores.address_of(workspace.team_id))
    without = frozenset(guarded.secrets_in(store, snapshot.tree_hex))
    keys = store_keys.keys_of(workspace.team_id)
    return ShownSnapshot(address, snapshot.tree_hex, team_stores.mount_options(), without, keys)

"""Store what has changed in a workspace while a judge works on a call, so that the snapshot before it has little to do.

Nothing refers to what is stored: the snapshot is taken once the call may run, and looks at what has changed since.
"""

import asyncio
from contextlib import suppress

from workspaces.models import State
from workspaces.runner import snapshots, watching
from workspaces.store import StoreError

_looking: dict = {}  # tasks by the id of the workspace


def begin(daemon, workspace):
    """Look ahead in the background, if the files are watched and nobody works on them."""
    busy = workspace.pk in _looking or daemon.tree_lock(workspace.pk).locked()
    if busy or workspace.state != State.READY or not watching.is_watched(workspace.pk):
        return
    task = _looking[workspace.pk] = asyncio.create_task(_look(daemon, workspace))
    task.add_done_callback(lambda _: _looking.pop(workspace.pk, None))


async def _look(daemon, workspace):
    async with daemon.tree_lock(workspace.pk):
        await daemon.thread(_store, daemon.driver(workspace.environment.driver), workspace)


def _store(driver, workspace):
    tree = snapshots.tree_at_rest(driver, workspace)
    if tree is None or snapshots.journal_of(workspace).exists():
        return  # a restore was cut off: whoever reads the files next recovers them first
    with suppress(StoreError, OSError):  # the snapshot itself will say so
        snapshots.scan(workspace, tree)

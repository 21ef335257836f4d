"""The hooks that are open in this process, one entry for each, also if two of them are for the same event."""

import asyncio
from collections import defaultdict
from weakref import WeakValueDictionary

from dashboard.database.outages import patiently

# Seconds for which an agent that lost its connection may reconnect before its action is withdrawn; connect's hook needs
# up to 5.
GRACE = 8.0

_open: dict[str, list["OpenHook"]] = defaultdict(list)  # call hash: oldest first
_locks: WeakValueDictionary = WeakValueDictionary()  # call hash: the lock shared by its hooks
_tasks: set[asyncio.Task] = set()  # the event loop keeps only weak references to tasks


class OpenHook:
    """One open hook. Use it on the event loop only."""

    def __init__(self, call_hash: str, call_id: str):
        self.call_hash, self.call_id = call_hash, call_id
        self.at_once = False  # allowed or denied without a person, when it was submitted
        self.is_approved = False
        self.began_at = None  # when its action was submitted, or asked for again
        # One hook at a time consumes an approval, so that one snapshot is taken.
        self.lock = _locks.setdefault(call_hash, asyncio.Lock())
        _open[call_hash].append(self)

    @property
    def is_replaced(self) -> bool:
        """Whether the same call came again and neither has an id: this older connection may be dead."""
        same = [hook for hook in _open[self.call_hash] if hook.call_id == ""]
        return self.call_id == "" and same[-1] is not self

    def leave(self):
        _open[self.call_hash].remove(self)
        if not _open[self.call_hash]:
            del _open[self.call_hash]


def is_waiting(call_hash: str) -> bool:
    """Return whether a hook for this call is open in this process."""
    return call_hash in _open


def run_later(seconds: float, function):
    """Await `function()` after `seconds`, unless the process ends first."""

    async def run():
        await asyncio.sleep(seconds)
        await patiently(function)

    task = asyncio.get_running_loop().create_task(run())
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)

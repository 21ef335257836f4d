"""When a program last asked for the answer to its call, as this process knows it.

A hook's connection tells when its agent is gone. A program that asks over the API only asks again, every 25 seconds or
so, and so it is gone once it has not asked for longer.
"""

import time
from collections import OrderedDict
from contextlib import contextmanager

GONE_AFTER = 60.0  # seconds without a request
MOST = 10_000  # actions that are remembered

_open: dict = {}  # action id: how many requests wait
_asked: OrderedDict = OrderedDict()  # action id: the monotonic time at which the last request ended


@contextmanager
def noted(action_id):
    """Note a request of the action's program, from its beginning to its end."""
    _open[action_id] = _open.get(action_id, 0) + 1
    try:
        yield
    finally:
        _open[action_id] -= 1
        if not _open[action_id]:
            del _open[action_id]
        _asked[action_id] = time.monotonic()
        _asked.move_to_end(action_id)
        while len(_asked) > MOST:
            _asked.popitem(last=False)


def silence(action_id) -> float | None:
    """Return for how many seconds nobody has asked; None if somebody waits, or nobody has asked this process yet."""
    if action_id in _open or action_id not in _asked:
        return None
    return time.monotonic() - _asked[action_id]

"""Long polling without a thread or database connection for each waiting caller, only a future."""

import asyncio
import time
from collections import Counter
from contextlib import contextmanager
from functools import partial

from django.conf import settings

from dashboard.database.outages import patiently
from dashboard.database.threads import query_in_thread
from dashboard.live.feed import feed
from dashboard.problems import Problem

RECHECK_INTERVAL = 25  # seconds after which a waiter checks again without news; the feed itself checks far more often
_open: Counter = Counter()
_batches: dict = {}  # (event loop, batch): (keys asked for, task that loads them); until its load begins


@contextmanager
def place_for(caller):
    """Take one of the open polls that a token may have in this process; raise Problem 429 if all are taken."""
    key = caller.token.pk
    if _open[key] >= settings.HANDRAIL_POLL_LIMIT:
        raise Problem(429, f"This token has {settings.HANDRAIL_POLL_LIMIT:,} requests waiting already.")
    _open[key] += 1
    try:
        yield
    finally:
        _open[key] -= 1
        if not _open[key]:
            del _open[key]


def same_view(caller) -> tuple:
    """Return what is equal for callers that see the same; part of a `batch` of `wait_for`."""
    return caller.token.pk, frozenset(caller.roles.items())


async def wait_for(check, is_done, *, team_ids, subject=None, timeout: float, batch=None, key=None):
    """Return the result of the sync function `check` once `is_done(result)` is true, or after `timeout` seconds.

    `check` is called again whenever the feed reports an event of the teams (about `subject`, if given). With `batch`,
    callers of an equal batch that wake together share one call: `check(keys)` returns {key: result}, and a key that is
    missing from it has the result None. While the database is away it waits on, and fails only at the end.
    """
    if timeout <= 0:
        return await _call(check, batch, key)
    deadline = time.monotonic() + timeout
    while True:
        left = deadline - time.monotonic()
        # Wait on the feed before the check, so that an event in between is not missed.
        news = asyncio.ensure_future(
            feed().wait(team_ids, subject=subject, timeout=max(0.0, min(left, RECHECK_INTERVAL)))
        )
        try:
            await asyncio.sleep(0)
            found = await patiently(partial(_call, check, batch, key), until=deadline)
            if left <= 0 or is_done(found):
                return found
            await news
        finally:
            news.cancel()


async def _call(check, batch, key):
    if batch is None:
        return await query_in_thread(check)
    which = (asyncio.get_running_loop(), batch)
    if which not in _batches:
        keys = set()
        _batches[which] = keys, asyncio.ensure_future(_load(check, which, keys))
    keys, task = _batches[which]
    keys.add(key)
    return (await asyncio.shield(task)).get(key)


async def _load(check, which, keys):
    await asyncio.sleep(0)  # let the other waiters woken by the same event join
    del _batches[which]  # a load already begun may miss the newest event
    return await query_in_thread(check, keys)

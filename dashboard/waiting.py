"""Waiting for an answer without holding anything: no thread, no database connection, one future for each caller."""

import asyncio
import time
from collections import Counter
from contextlib import contextmanager

from asgiref.sync import SyncToAsync, sync_to_async
from django.conf import settings
from django.db import connections

from dashboard.live import feed
from dashboard.problems import Problem

LOOK = 25  # seconds after which whoever waits looks although nothing was heard; the feed itself looks far more often
_open: Counter = Counter()


@contextmanager
def place_for(caller):
    """One of the open polls that a token may have in this process; Problem 429 when all are taken."""
    key = caller.token.pk
    if _open[key] >= settings.HANDRAIL_POLL_LIMIT:
        raise Problem(429, f"This token waits {settings.HANDRAIL_POLL_LIMIT:,} times already.")
    _open[key] += 1
    try:
        yield
    finally:
        _open[key] -= 1
        if not _open[key]:
            del _open[key]


async def wait_for(look, done, *, team_ids, subject=None, timeout: float):
    """What the sync function `look` finds when `done` holds for it, or when `timeout` seconds are over.

    It looks again whenever the feed says that something happened in the teams (to the subject, when given).
    """
    if timeout <= 0:
        return await sync_to_async(look)()
    deadline = time.monotonic() + timeout
    while True:
        left = deadline - time.monotonic()
        # Registered before the look, so that what happens in between is heard.
        news = asyncio.ensure_future(feed().wait(team_ids, subject=subject, timeout=max(0.0, min(left, LOOK))))
        try:
            await asyncio.sleep(0)
            found = await sync_to_async(look)()
            if left <= 0 or done(found):
                return found
            await sync_to_async(connections.close_all)()
            _let_the_thread_go()
            await news
        finally:
            news.cancel()


def _let_the_thread_go():
    """End the thread that asgiref keeps for this request to its end; the next look gets another one."""
    request = SyncToAsync.thread_sensitive_context.get(None)
    thread = SyncToAsync.context_to_thread_executor.pop(request, None) if request else None
    if thread:
        thread.shutdown(wait=False)

"""Those who wait for events of a team: woken by one, or cancelled, also when both come at once."""

import asyncio

import pytest
from asgiref.sync import async_to_sync

from dashboard.live.feed import Feed


async def waiter(timeout: float = 30):
    """A feed that reads no database, somebody who waits in it, and the future that an event would wake."""
    feed = Feed()
    feed._run = lambda: None
    task = asyncio.create_task(feed.wait(["team"], timeout=timeout))
    await asyncio.sleep(0)
    [future] = feed._waiting[("team", None)]
    return feed, task, future


def test_a_waiter_cancelled_together_with_an_event_ends():
    async def cancelled():
        feed, task, future = await waiter()
        future.set_result(None)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert feed._waiting == {}

    async_to_sync(cancelled)()


@pytest.mark.parametrize(("timeout", "comes"), [(30, True), (0, False)])
def test_a_wait_returns_whether_an_event_came(timeout, comes):
    async def told():
        _, task, future = await waiter(timeout)
        if comes:
            future.set_result(None)
        return await task

    assert async_to_sync(told)() is comes

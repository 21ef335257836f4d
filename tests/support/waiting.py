"""Wait for what happens elsewhere."""

import asyncio
import time

SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 0.2  # seconds between two looks; as long as a look takes, between these


def until(holds, within: float = 120.0):
    """Call `holds()` until it returns something true, and return that; fail after so many seconds."""
    deadline = time.monotonic() + within
    while True:
        began = time.monotonic()
        if found := holds():
            return found
        now = time.monotonic()
        assert now < deadline, f"it did not happen within {within} s"
        time.sleep(min(LONGEST_PAUSE, max(SHORTEST_PAUSE, now - began)))


async def until_async(holds, within: float = 120.0):
    """As `until`, for a test that has an event loop; `holds` itself is not awaited."""
    deadline = time.monotonic() + within
    while not (found := holds()):
        assert time.monotonic() < deadline, f"it did not happen within {within} s"
        await asyncio.sleep(SHORTEST_PAUSE)
    return found

"""Limit how many submitted calls are processed at once: a hundred threads that start together would block web."""

import asyncio
from weakref import WeakKeyDictionary

MAX_CONCURRENT = 4
ACTIONS_PATH = "/api/v1/actions"
_turns: WeakKeyDictionary = WeakKeyDictionary()  # event loop: its semaphore


def turn() -> asyncio.Semaphore:
    """Return the semaphore of this event loop; hold it (`async with turn():`) while one call is submitted."""
    return _turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(MAX_CONCURRENT))


def in_turn(app):
    """Wrap an ASGI application so that calls posted to the API take a turn before their body is read."""

    async def guarded(scope, receive, send):
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"] == ACTIONS_PATH:
            async with turn():
                await app(scope, receive, send)
        else:
            await app(scope, receive, send)

    return guarded

"""Limit how many submitted calls are processed at once, and how many of one agent: its slow calls hold up no other.

Many at once would block web; each takes a thread and perhaps a judge, and may wait for names and hosts.
"""

import asyncio
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

from django.db import DatabaseError, InterfaceError

from dashboard.database.threads import query_in_thread
from dashboard.people.tokens import find_token
from dashboard.workers.turns import Turns, for_whom

MAX_CONCURRENT = 10
ACTIONS_PATH = "/api/v1/actions"
NOBODY = "nobody"  # all who come without an agent's token are one
_turns: WeakKeyDictionary = WeakKeyDictionary()  # event loop: its turns


@asynccontextmanager
async def turn(agent_id):
    """Hold a turn of this agent while one call is submitted."""
    who = str(agent_id or NOBODY)
    turns = _turns.setdefault(asyncio.get_running_loop(), Turns(MAX_CONCURRENT))
    mine = turns.ask(who)
    try:
        await asyncio.shield(asyncio.wrap_future(mine))
    except BaseException:
        turns.withdraw(who, mine)
        raise
    token = for_whom.set(who)
    try:
        yield
    finally:
        for_whom.reset(token)
        turns.release(who)


def in_turn(app):
    """Wrap an ASGI application so that calls posted to the API take a turn before their body is read."""

    async def guarded(scope, receive, send):
        if scope["type"] == "http" and scope["method"] == "POST" and scope["path"] == ACTIONS_PATH:
            async with turn(await _agent_of(scope)):
                await app(scope, receive, send)
        else:
            await app(scope, receive, send)

    return guarded


async def _agent_of(scope) -> object | None:
    """Return the id of the agent whose token the request has; the door itself checks the token."""
    scheme, _, plain = dict(scope.get("headers", ())).get(b"authorization", b"").partition(b" ")
    if scheme.lower() != b"bearer":
        return None
    try:
        token = await query_in_thread(find_token, plain.decode("latin-1").strip())
    except (DatabaseError, InterfaceError):  # the door will say so
        return None
    return token and token.agent_id

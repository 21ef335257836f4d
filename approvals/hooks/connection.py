"""The connection on which a hook waits: whether the agent closed it, and what to run after the response was sent."""

import time
from collections.abc import Callable
from functools import partial

from dashboard.database.outages import patiently
from dashboard.database.threads import query_in_thread

KEY = "handrail.hook"  # in the ASGI scope
UNKNOWN = object()


class Connection:
    """One connection. `is_closed` only becomes true when the agent closes it.

    A web process that shuts down cancels the request without closing.
    """

    def __init__(self, *, is_served: bool = False):
        self.is_served = is_served  # by approvals.hooks.fail_closed, which calls `sent` and `end`
        self.is_closed = False
        self.began = time.monotonic()
        self.asked_at = None  # the database's time when the view first read the call; it stays if the view runs again
        self.workspace = UNKNOWN  # which the hook is for, once it was looked up
        self._when_sent: list[Callable] = []
        self._at_end: list[Callable] = []

    def when_sent(self, function: Callable):
        """Call `function` in a thread after the response was sent, unless the agent closed the connection."""
        self._when_sent.append(function)

    def at_end(self, function: Callable):
        """Call `function` on the event loop when the request is over, however it ended."""
        self._at_end.append(function)

    async def sent(self):
        for function in self._when_sent:
            await patiently(partial(query_in_thread, function))

    def begin_again(self):
        """Drop the callbacks for after the response: the view runs again from its beginning."""
        self._when_sent.clear()
        self.workspace = UNKNOWN

    def end(self):
        for function in self._at_end:
            function()


def connection_of(request) -> Connection:
    """Return the Connection that approvals.hooks.fail_closed put into the scope; a new one for any other request."""
    return getattr(request, "scope", {}).get(KEY) or Connection()

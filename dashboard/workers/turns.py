"""Fair turns at a scarce resource: a holder of many turns waits for those who hold fewer."""

import threading
from collections import Counter, deque
from concurrent.futures import Future
from contextvars import ContextVar

# For whom the running code takes turns, an agent's id; "" for people, who share none.
for_whom: ContextVar[str] = ContextVar("for_whom", default="")


class Turns:
    """At most `most` at a time, the oldest first.

    Nobody gets a further turn who holds half of what is free or more: one alone gets 4 of 10, two get 3 each, and some
    stay free for whoever comes next. `who` of "" is only bound by `most`, of which agents together leave
    `for_people` free.
    """

    def __init__(self, most: int, for_people: int = 0):
        self.most, self.for_agents = most, most - for_people
        self._held, self._waiting = Counter(), deque()  # who: turns; (who, future)
        self._lock = threading.Lock()

    def ask(self, who: str) -> Future:
        """Return a future that is done when the turn begins. Afterwards call `release`, or else `withdraw`."""
        future = Future()
        with self._lock:
            self._waiting.append((who, future))
            self._grant()
        return future

    def release(self, who: str):
        with self._lock:
            self._release(who)

    def withdraw(self, who: str, future: Future):
        """Give up waiting, or the turn if it has just begun."""
        with self._lock:
            if (who, future) in self._waiting:
                self._waiting.remove((who, future))
            elif future.done():
                self._release(who)

    def _release(self, who: str):
        self._held[who] -= 1
        self._held += Counter()  # without zeros
        self._grant()

    def _grant(self):
        for who, future in list(self._waiting):
            held = self._held.total()
            free, by_agents = self.most - held, held - self._held[""]
            if not free:
                return
            if not who or (by_agents < self.for_agents and 2 * self._held[who] < free):
                self._waiting.remove((who, future))
                self._held[who] += 1
                future.set_result(None)

"""Leave a SQLite database free for the running product between transactions.

SQLite has one writer at a time. Those that wait look again ten times a second, so that a writer whose next transaction
begins where the last one ended is the only one, and the runner's heartbeat waits until it is killed.
"""

import time
from contextlib import contextmanager

LONGEST = 0.3  # seconds of writing after which the database is left free
LOOK = 0.15  # seconds, in which each of those that wait looks once


class Pace:
    """Counts how long transactions took; the database is then left free for as long, and for LOOK at least."""

    def __init__(self, clock=time.monotonic, sleep=time.sleep):
        self.clock, self.sleep = clock, sleep
        self.written = 0.0  # seconds since it was last left free

    def leave_free(self):
        """Return once the database was free for as long as was written since; at once after little."""
        if self.written >= LONGEST:
            self.sleep(max(self.written, LOOK))
            self.written = 0.0

    @contextmanager
    def writing(self):
        began = self.clock()
        try:
            yield
        finally:
            self.written += self.clock() - began

"""Limit the work of reading a repository's files: an agent can write files that take far more than they have bytes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Spent(ValueError):
    """Reading on would take more work than it may."""


class Work:
    """Bytes that may be worked on in all, and seconds while `running`; once they are spent, each `take` raises."""

    def __init__(self, size: int, seconds: float = 60):
        self._bytes, self._seconds = size, seconds
        self._until = float("inf")

    def take(self, size: int = 0) -> None:
        """Count these bytes. Raise Spent."""
        self._bytes -= size
        if self._bytes < 0 or time.monotonic() > self._until:
            self._bytes = -1
            raise Spent("it takes too much work to read")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let the clock run."""
        self._until = time.monotonic() + self._seconds
        try:
            yield
        finally:
            self._seconds = self._until - time.monotonic()
            self._until = float("inf")

"""Calls with a deadline for their caller; the timeout of a socket begins anew with each byte."""

import threading
import time
from collections.abc import Callable


class Late(Exception):
    """The call did not end in time; its thread is left behind and keeps no process from ending."""


def within(seconds: float, calls: list[Callable]) -> list:
    """Return the result of each call, or the exception that it raised; Late for a call that takes longer.

    Each has a thread of its own. They must not use the database.
    """
    results: list = [Late()] * len(calls)

    def run(at: int, call: Callable):
        try:
            results[at] = call()
        except Exception as error:
            results[at] = error

    threads = [threading.Thread(target=run, args=each, daemon=True) for each in enumerate(calls)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0, until - time.monotonic()))
    return list(results)

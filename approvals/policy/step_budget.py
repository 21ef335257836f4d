"""A budget of steps for each judgement, so that no input can occupy the engine; one that exceeds it asks a person."""

from contextlib import contextmanager
from contextvars import ContextVar

# A step is roughly one character or one small object handled in Python. The same input always takes the same number.
MAX_STEPS = 300_000
_budget = ContextVar("budget", default=None)


class TooMuch(Exception):
    """The judgement exceeds its budget of steps."""


class Budget:
    def __init__(self, steps):
        self.left = steps


@contextmanager
def limited(steps=MAX_STEPS):
    """Limit the calls inside to this many steps."""
    budget = Budget(steps)
    token = _budget.set(budget)
    try:
        yield budget
    finally:
        _budget.reset(token)


def spend(steps=1):
    """Charge work that is about to be done; TooMuch if the budget does not cover it."""
    budget = _budget.get()
    if budget is None:
        return
    budget.left -= steps
    if budget.left < 0:
        raise TooMuch

"""A finding of the checker, and the registry of its checks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

GRACE = 6.0  # seconds after a fault in which a part may still refuse, and before one in which it was noticed late


@dataclass
class Finding:
    rule: str  # which of I1–I11, or what else must hold
    words: str

    def __str__(self):
        return f"{self.rule}: {self.words}"


Check = Callable[..., Iterator[str]]
CHECKS: dict[str, Check] = {}


def rule(name: str):
    """Register a check: a generator of sentences, each a finding of this rule."""

    def register(check: Check) -> Check:
        CHECKS[f"{name} ({check.__name__.replace('_', ' ')})"] = check
        return check

    return register


def check(evidence) -> list[Finding]:
    return [Finding(name, words) for name, each in CHECKS.items() for words in each(evidence)]


def in_outage(evidence, at: float, until: float | None = None, **wanted) -> bool:
    """Return whether a planned fault with these values covers any moment of a time."""
    until = at if until is None else until
    for fault in evidence.faults:
        if all(getattr(fault, name) == value for name, value in wanted.items()):
            back = fault.back + fault.after if fault.back else float("inf")
            if fault.began - 1 <= until and at <= back + GRACE:
                return True
    return False

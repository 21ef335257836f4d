"""Worker processes that run the policy engine for web (dashboard.workers.pool)."""

import os

from approvals.policy import Verdict
from dashboard.workers.pool import Late, Worker, Workers

__all__ = ["Late", "check", "classify"]

MAX_JUDGES = min(4, os.cpu_count() or 1)
CALL_TIMEOUT = 3.0  # timeout for one call; the engine also bounds its own steps
CHECK_TIMEOUT = 20.0  # for all tests of a policy
MAX_POLICIES = 64  # policies kept by one judge; it is replaced once it has more


class Judge(Worker):
    """One process of the engine. A policy's text is sent to it once and referred to by its SHA-256 afterwards."""

    def __init__(self):
        self.known = set()  # SHA-256 of each policy that was sent to it
        super().__init__("approvals.policy", "serve")

    @property
    def lives(self) -> bool:
        return super().lives and len(self.known) <= MAX_POLICIES

    def ask(self, request: dict, seconds: float, texts: dict | None = None) -> dict:
        unknown = {key: text for key, text in (texts or {}).items() if key not in self.known}
        answer = super().ask(request | {"texts": unknown}, seconds)
        self.known |= set(unknown)
        return answer


class Judges(Workers):
    """A pool of at most `most` judges."""

    def __init__(self, most: int = MAX_JUDGES):
        super().__init__(Judge, most)

    def ask(self, request: dict, *, texts: dict | None = None, seconds: float = CALL_TIMEOUT) -> dict:
        return super().ask(request, seconds, texts=texts)


judges = Judges()


def classify(
    tool: str, arguments: dict, *, policy=None, floor=None, file=None, rules: list[str] | None = None, **world
) -> Verdict:
    """Return the verdict of a stored policy, with what `floor` forbids also forbidden, or of `rules` alone.

    `file`: a PolicyFile without a problem, which makes it stricter, or looser if it is adopted.
    `world`: cwd, workspace_root, home and context, as approvals.policy.classify takes them. Raise Late on timeout.
    """
    request = {"tool": tool, "arguments": arguments, "world": world}
    if rules is not None:
        return Verdict(**judges.ask(request | {"rules": rules}))
    request |= {"policy": policy.sha256, "floor": floor.sha256 if floor else None}
    request |= {"file": file.sha256, "adopted": file.is_adopted} if file else {}
    texts = {each.sha256: each.text for each in (policy, floor, file) if each}
    return Verdict(**judges.ask(request, texts=texts))


def check(text: str, below: str = "") -> dict:
    """Load a policy's text and run its tests; return {problem} or {mode, rules, tests, never, shadowed, trust, …}.

    `tests` is their number, `never` has a sentence for each rule that can never match, `warnings` one for each that
    never decides, `shadowed` an entry for each that an earlier one takes all of. `blocks` are those with conditions,
    {conditions, rules, labels, mode, is_floor} each, and `targets` {name: what belongs to it}. `below`: the team's
    text, for an environment's own. Raise Late on timeout.
    """
    return judges.ask({"check": text, "below": below}, seconds=CHECK_TIMEOUT)


def cases(*, before: tuple, after: tuple) -> list:
    """Return [shape, tool, arguments, context] of the calls that stand for all that two policies can differ about.

    `before` and `after` are (policy, floor or None), or these and an adopted PolicyFile. Raise Late on timeout.
    """
    texts = {each.sha256: each.text for each in (*before, *after) if each}
    pairs = [[each and each.sha256 for each in pair] for pair in (before, after)]
    return judges.ask({"cases": pairs}, texts=texts, seconds=CALL_TIMEOUT)["cases"]


def needles(*, before: tuple, after: tuple) -> dict:
    """Return what a call must hold so that two policies can differ about it (approvals.policy.needles). Raise Late.

    `before` and `after` are (policy, floor or None).
    """
    texts = {each.sha256: each.text for each in (*before, *after) if each}
    pairs = [[each and each.sha256 for each in pair] for pair in (before, after)]
    return judges.ask({"change": pairs}, texts=texts)


def compare(calls: list, *, before: tuple, after: tuple, seconds: float) -> list:
    """Return [[tier, rule] before, [tier, rule] after] of the first calls, as many as `seconds` suffice for.

    `before` and `after` are as in `cases`; `calls` are (tool, arguments, world). Raise Late on timeout.
    """
    keys = {name: [each and each.sha256 for each in pair] for name, pair in (("before", before), ("after", after))}
    texts = {each.sha256: each.text for each in (*before, *after) if each}
    request = {"calls": calls, "seconds": seconds} | keys
    return judges.ask(request, texts=texts, seconds=seconds + CALL_TIMEOUT)["verdicts"]

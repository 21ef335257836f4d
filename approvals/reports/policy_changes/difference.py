"""What a changed policy would newly let run, for all calls and not only those that were recorded.

Two policies are compared by what they are made of (approvals.policy.shapes): representative calls of each class are
judged by both in the helper processes.
"""

import time
from dataclasses import dataclass, field

from approvals.evaluation import policies, workers
from approvals.evaluation.calls import sha256
from approvals.models import Policy, PolicyFile
from approvals.policy.difference import GROUPS, Shape, classes
from approvals.reports.policy_changes.scopes import Scope
from dashboard.problems import invalid

SECONDS = 15.0
BATCH = 60  # cases that a helper process judges at once
ROOT = "/workspace"


@dataclass
class Difference:
    """The classes of calls that a text treats differently, by group. `judged` of `of` cases were compared."""

    groups: dict[str, list[Shape]] = field(default_factory=lambda: {name: [] for name in GROUPS})
    of: int = 0
    judged: int = 0
    contexts: list[dict] = field(default_factory=list)

    @property
    def is_cut(self) -> bool:
        return self.judged < self.of

    @property
    def newly_allowed(self) -> list[Shape]:
        return self.groups["newly_allowed"]


def of_text(scope: Scope, text: str, *, seconds: float = SECONDS) -> Difference:
    """Compare a text with the policy in force. Problem 422: an invalid text, or one that takes too long."""
    policies.require_valid(text)
    before = scope.policy
    after = Policy(team=scope.team, environment=scope.environment, text=text, sha256=sha256(text.encode()))
    sides = {"before": (before, policies.floor(scope.own) if scope.own else None)}
    sides["after"] = (after, policies.floor(after))
    return _compared(sides, seconds)


def of_file(scope: Scope, file: PolicyFile, *, seconds: float = SECONDS) -> Difference:
    """Compare the policy in force with what it would be with this file adopted. Problem 422: it can't be adopted."""
    if file.problem:
        raise invalid(f"This file can't be adopted: {file.problem}.")
    floor = policies.floor(scope.policy)
    return _compared({"before": (scope.policy, floor), "after": (scope.policy, floor, file)}, seconds)


def _compared(sides: dict, seconds: float) -> Difference:
    until = time.monotonic() + seconds
    judged = []
    try:
        cases = workers.cases(**sides)
        for some in (cases[at : at + BATCH] for at in range(0, len(cases), BATCH)):
            left = until - time.monotonic()
            verdicts = workers.compare([_call(case) for case in some], seconds=left, **sides) if left > 0 else []
            judged += [(case, *pair) for case, pair in zip(some, verdicts, strict=False)]
            if len(verdicts) < len(some):
                break
    except workers.Late as late:
        raise invalid(f"The difference could not be worked out: {late}.") from None
    contexts = list({repr(case[3]): case[3] for case in cases}.values())
    people = tuple(policies.approvals(*sides[name]) for name in ("before", "after"))
    return Difference(classes(judged, people), len(cases), len(judged), contexts)


def _call(case: list) -> tuple:
    _, tool, arguments, context = case
    return tool, arguments, {"cwd": ROOT, "workspace_root": ROOT, "context": context}

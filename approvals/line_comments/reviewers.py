"""Write what a reviewer agent found as drafts of comments on lines, of the person who gave the task."""

from contextlib import suppress

from approvals.line_comments import drafts
from approvals.models import Side, TaskAttempt
from dashboard.people.access import Caller
from dashboard.problems import Problem
from workspaces.changes.comparisons import Point, compare
from workspaces.secrets.masking import masked
from workspaces.store import StoreError
from workspaces.store.safe_open import BadPath


def write(attempt: TaskAttempt, findings: list, caller: Caller) -> int:
    """Write the findings on the lines of the attempt's changes; return how many. What fits no line is left out."""
    workspace = attempt.workspace
    if workspace.baseline is None or workspace.head is None:
        return 0
    old, new = workspace.baseline.number, workspace.head.number
    comparison = compare(Point(workspace, old), Point(workspace, new))
    who, written = attempt.review.program_name, 0
    for each in findings:
        text = f"{who} (review): {masked(each.text, workspace)}"[: drafts.MAX_TEXT]
        wish = {"side": Side.NEW, "line": each.line, "end_line": each.line, "text": text}
        path = each.path.encode("utf-8", "surrogateescape")
        with suppress(Problem, StoreError, BadPath):
            drafts.on_changes(workspace, comparison, path, b"", (str(old), str(new)), caller=caller, **wish)
            written += 1
    return written

"""What changed since a person was here, in one line each: workspaces with their lines, and checks that fail."""

from dataclasses import dataclass
from datetime import datetime

from approvals.reports.changed_since import Answer, Changed, changed_since
from workspaces.changes.comparisons import Lines
from workspaces.models import Workspace
from workspaces.programs.checks import Check, CheckState

MAX_NAMED = 3  # workspaces, with links to what changed there
MAX_COUNTED = 20  # workspaces whose lines are added up, those that changed last


@dataclass(frozen=True)
class ChangedLine:
    """How many workspaces changed, the `last` of them, all their `lines`, and their `failing` checks.

    `lines.are_all` is false if not all were counted.
    """

    workspaces: int
    last: list[Changed]
    lines: Lines
    failing: list[tuple[Workspace, Check]]


def changed(caller, since: datetime) -> ChangedLine:
    found = changed_since(caller, since, most=MAX_COUNTED)
    failing = [(row.workspace, each) for row in found.rows for each in row.checks if each.state == CheckState.FAILED]
    return ChangedLine(found.total, found.rows[:MAX_NAMED], _sum(found), failing)


def _sum(found: Answer) -> Lines:
    counted = [row.lines for row in found.rows if row.lines]
    sums = (sum(getattr(lines, name) for lines in counted) for name in ("additions", "deletions", "files"))
    return Lines(*sums, are_all=len(counted) == found.total and all(lines.are_all for lines in counted))

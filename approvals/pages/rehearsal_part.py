"""The part of a card about trying its command first."""

from functools import cached_property

from approvals.actions import rehearsals
from approvals.models import Action
from dashboard.problems import Problem
from workspaces.changes import history
from workspaces.changes.diff import FileDiff
from workspaces.changes.highlight import deadline
from workspaces.models import Rehearsal, RehearsalStatus
from workspaces.pages.diff_sections import diff_of
from workspaces.services.rehearsals import NOT_SHOWN, changes, what_holds

SHOWN_NAMES = 20
SHOWN_DIFFS = 5
OPEN_LINES = 60  # of differences, up to which they are not folded
MAX_COMPARED = 200  # changed paths up to which the card itself shows differences


class RehearsalPart:
    """`is_open`: the action is pending."""

    not_shown = NOT_SHOWN

    def __init__(self, action: Action, is_open: bool):
        self.action, self.is_open = action, is_open
        self.rehearsal: Rehearsal | None = action.rehearsal

    @property
    def is_shown(self) -> bool:
        return self.rehearsal is not None or (self.is_open and rehearsals.is_command(self.action))

    @cached_property
    def cannot(self) -> str:
        """Why the pending action cannot be tried first; "" if it can."""
        return rehearsals.why_not(self.action) if self.is_open else ""

    @property
    def what_holds(self) -> str:
        """What holds the command while it is tried, if that is not the medium envelope."""
        return what_holds(self.action.workspace)

    @property
    def not_applied_because(self) -> str:
        return rehearsals.why_not_applied(self.action)

    @property
    def may_be_applied(self) -> bool:
        return self.is_open and not self.not_applied_because

    @property
    def obstacle(self) -> str:
        done = self.rehearsal is not None and self.rehearsal.status == RehearsalStatus.DONE
        return rehearsals.obstacle_of(self.action) if done else ""

    @property
    def has_trees(self) -> bool:
        """Whether the store still has what it left."""
        kept = (RehearsalStatus.DONE, RehearsalStatus.OUTDATED)
        return self.rehearsal is not None and self.rehearsal.status in kept

    @property
    def is_output_cut(self) -> bool:
        return self.rehearsal.output_bytes > len(self.rehearsal.output.encode())

    @property
    def names(self) -> list[dict]:
        """The first changed paths."""
        return self.rehearsal.changes[:SHOWN_NAMES]

    @property
    def is_short(self) -> bool:
        """Whether the differences fit on a screen or two."""
        return sum(len(hunk.lines) for diff in self.diffs for hunk in diff.hunks) <= OPEN_LINES

    @property
    def has_more(self) -> bool:
        return self.rehearsal.change_count > len(self.diffs)

    @cached_property
    def diffs(self) -> list[FileDiff]:
        if not self.has_trees or self.rehearsal.change_count > MAX_COMPARED:
            return []
        try:
            return diffs_of(self.rehearsal, rows_of(self.rehearsal)[:SHOWN_DIFFS])
        except Problem:
            return []  # the store cannot be read now; the names are shown


def rows_of(rehearsal: Rehearsal) -> list[history.FileChange]:
    return changes(rehearsal.workspace, rehearsal.base_hex, rehearsal.tree_hex, count=False)


def diffs_of(rehearsal: Rehearsal, rows) -> list[FileDiff]:
    until = deadline()
    return [diff_of(*row, until=until) for row in history.contents(rehearsal.workspace, rows)]

"""What happens in a workspace, on one line of its pages: the task, the lines that changed, and the checks."""

import time
from functools import cached_property

from workspaces import extensions
from workspaces.changes import changed_lines
from workspaces.changes.comparisons import Lines
from workspaces.programs.checks import CHECK_TONES, CheckState, checks_of

COUNTING_SECONDS = 1.0  # for the changed files; without them the line has no numbers
SIGNS = {
    CheckState.PASSED: "✓",
    CheckState.FAILED: "✕",
    CheckState.RUNNING: "…",
    CheckState.UNCERTAIN: "?",
    CheckState.CANCELLED: "–",
    CheckState.NEVER_RUN: "",
}


class Work:
    """The part of `Head` that says what is done in the workspace."""

    @cached_property
    def task(self) -> dict | None:
        """{title, agent, url, started_at, ended_at} of the newest task of an agent here; None if there was none."""
        return extensions.ports.task_in(self.workspace)

    @cached_property
    def lines(self) -> Lines | None:
        """What differs between the snapshot after setup and the newest one; None if that is unknown."""
        base, head = self.workspace.baseline, self.workspace.head
        if base is None or head is None or base == head:
            return None
        return changed_lines.between(
            self.workspace.team_id, base.tree_hex, head.tree_hex, until=time.monotonic() + COUNTING_SECONDS
        )

    @cached_property
    def check_counts(self) -> list[tuple[str, str, int, str]]:
        """(words, sign, count, tone) for each state that a check of the environment is in."""
        checks = checks_of(self.workspace)[self.workspace.pk] if self.workspace.environment.checks else []
        states = [check.state for check in checks]
        return [
            (state.label, sign, states.count(state), CHECK_TONES[state])
            for state, sign in SIGNS.items()
            if state in states
        ]

"""The links of a card into its action's workspace: output, file changes, rollback and recordings of terminals."""

from functools import cached_property

from django.urls import reverse

from approvals.evaluation.calls import BROKER
from approvals.evaluation.own_verbs import OWN_VERBS
from approvals.reports.call_span import CallSpan, span_of
from workspaces.models import Command
from workspaces.operations.shown_state import before_a_call, shown_state
from workspaces.programs import terminals


class WorkspacePart:
    @property
    def place_trouble(self) -> str:
        """The reason why Handrail can't run the call in its workspace now; "" of a call that its agent runs itself."""
        runs_here = self.action.workspace_id and self.action.mode == BROKER and self.action.tool not in OWN_VERBS
        return before_a_call(self.action.workspace) if self.is_open and runs_here else ""

    @property
    def place_state(self) -> str:
        """The state of the workspace, for a row, where `place_trouble` has a reason."""
        return shown_state(self.action.workspace) if self.place_trouble else ""

    @cached_property
    def output_address(self) -> str:
        """The URL of the command that the runner ran for it, with its output; "" if there is none."""
        command = (
            Command.objects.filter(operation=self.action.operation_id).first() if self.action.operation_id else None
        )
        return self._in_workspace("command", command.pk) if command else ""

    @cached_property
    def span(self) -> CallSpan | None:
        """The points between which the call changed files; None if there was no snapshot before it."""
        return span_of(self.action) if self.action.snapshot_before else None

    @property
    def changes_address(self) -> str:
        span = self.span
        return f"{self._in_workspace('workspace-changes')}?from={span.since}&to={span.until}" if span else ""

    @property
    def rollback_address(self) -> str:
        return reverse("action-rollback", args=[self.action.pk]) if self.action.snapshot_before else ""

    @property
    def terminals(self) -> list[tuple[str, str]]:
        """Terminals that were open when it was submitted, from anywhere: [(URL of that moment, name)]."""
        if self.action.workspace_id is None:
            return []
        found = terminals.open_at(self.action.workspace_id, self.action.created_at)
        return [
            (f"{self._in_workspace('terminal-recording', terminal.pk)}?at={seconds:.1f}", terminals.name_of(terminal))
            for terminal, seconds in found
        ]

    def _in_workspace(self, name: str, *more) -> str:
        workspace = self.action.workspace
        return reverse(name, args=[workspace.team.slug, workspace.key, *more])

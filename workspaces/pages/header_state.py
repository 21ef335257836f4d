"""What a workspace does now, and why: its state in words, and the operations under way."""

from functools import cached_property

from django.utils.translation import gettext

from dashboard.text.labels import STATES
from workspaces.host import place
from workspaces.lifecycle.activity import Awake, why_awake
from workspaces.models import Operation, State
from workspaces.operations import endings
from workspaces.operations.shown_state import frozen_words, out_of_reach, shown_state, what_to_do
from workspaces.pages.operation_view import OperationView


class ShownState:
    """The part of `Head` that says how the workspace is."""

    @property
    def state(self) -> str:
        return shown_state(self.workspace)

    @property
    def state_words(self) -> str:
        return str(STATES["workspace"][self.state][0])

    @property
    def out_of_reach(self) -> str:
        return out_of_reach(self.workspace)

    @property
    def what_to_do(self) -> str:
        """The advice on how to bring its driver, or the workspace itself, back; "" if there is none."""
        return what_to_do(self.workspace) if self.out_of_reach else ""

    @property
    def is_moving(self) -> bool:
        """Whether an operation changes its state now; one that waits for its engine leaves the state as it is."""
        return bool(getattr(self.workspace, "moves", "")) and not self.out_of_reach

    @cached_property
    def ended_by_itself(self) -> bool:
        run = self.run if self.workspace.state == State.STOPPED and not self.workspace.trashed_at else None
        return run is not None and run.end_code in endings.BY_ITSELF

    @property
    def reason(self) -> str:
        workspace = self.workspace
        if workspace.trashed_at:
            words = gettext("Snapshot %(number)s has all files.")
            return words % {"number": workspace.head.number} if workspace.head else ""
        if away := place.unreachable(workspace):
            return away
        if self.ended_by_itself and workspace.head and not workspace.missing_snapshot:
            files = gettext("Files are as in snapshot %(number)s.") % {"number": workspace.head.number}
            return f"{workspace.reason} {files}".strip()
        return workspace.reason

    @cached_property
    def awake(self) -> Awake | None:
        is_in_words = self.workspace.trashed_at or self.out_of_reach or self.is_moving
        return None if is_in_words else why_awake(self.workspace)

    @property
    def frozen(self) -> str:
        return frozen_words(self.workspace)

    @cached_property
    def operations(self) -> list:
        """The exclusive operations that are due or in flight, as OperationViews."""
        operations = Operation.objects.open().filter(workspace=self.workspace, exclusive=True).order_by("due_at")
        return [OperationView(operation) for operation in operations]

    def may_stop(self, operation: OperationView) -> bool:
        return bool(operation.stop_needs) and self.caller.can(operation.stop_needs, self.workspace.team_id)

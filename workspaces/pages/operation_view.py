"""An operation of a workspace as its pages show it."""

import base64
import os
from dataclasses import dataclass
from functools import cached_property

from django.utils.translation import gettext, gettext_lazy

from workspaces.host import place
from workspaces.lifecycle import permission_to_cancel
from workspaces.models import Operation, StateCode
from workspaces.operations import WAITING_KINDS, WAITS
from workspaces.services import pushed

OPERATION_LABELS = {
    "create": gettext_lazy("Creating"),
    "resume": gettext_lazy("Resuming"),
    "pause": gettext_lazy("Pausing"),
    "stop": gettext_lazy("Stopping"),
    "ended": gettext_lazy("Cleaning up"),
    "snapshot": gettext_lazy("Taking a snapshot"),
    "asked_snapshot": gettext_lazy("Taking a snapshot"),
    "restore": gettext_lazy("Restoring"),
    "prove": gettext_lazy("Comparing every byte"),
    "keep_checkpoint": gettext_lazy("Keeping a checkpoint"),
    "restore_checkpoint": gettext_lazy("Restoring a checkpoint"),
    "drop_checkpoint": gettext_lazy("Removing the files of a checkpoint"),
    "rehearse": gettext_lazy("Trying a command on a copy"),
    "rebuild": gettext_lazy("Rebuilding"),
    "maintain": gettext_lazy("Running the maintenance script"),
    "revise": gettext_lazy("Updating from its source"),
    "archive": gettext_lazy("Creating an archive"),
    "put_away": gettext_lazy("Archiving"),
    "promote": gettext_lazy("Keeping files as an artifact"),
    "pull_image": gettext_lazy("Pulling an image"),
    "install_agent": gettext_lazy("Installing an agent's program"),
    "keep_installed": gettext_lazy("Keeping what was installed"),
    "trash": gettext_lazy("Moving to the trash"),
    "move": gettext_lazy("Keeping all files for a move"),
    "arrive": gettext_lazy("Bringing files to another place"),
    "leave": gettext_lazy("Clearing the place that it left"),
    "take_lead": gettext_lazy("Taking over what runs in it"),
    "keep_returned": gettext_lazy("Keeping what came back as a fork"),
    "forget": gettext_lazy("Deleting data past its retention"),
    "push": gettext_lazy("Pushing"),
    "pull_request": gettext_lazy("Opening a pull request"),
    "take_back": gettext_lazy("Taking back what left it"),
    "way_back": gettext_lazy("Looking for a way back"),
    "bundle": gettext_lazy("Creating a git bundle"),
    "command": gettext_lazy("Running a command"),
    "service": gettext_lazy("Running a service"),
    "terminal": gettext_lazy("Keeping a terminal open"),
    "broker": gettext_lazy("Carrying out an approved action"),
    "workspace_action": gettext_lazy("Carrying out an approved action"),
    "put_hook_back": gettext_lazy("Putting the hook back"),
    "hold": gettext_lazy("Holding or releasing calls"),
    "allow_host": gettext_lazy("Allowing a host"),
    "purge": gettext_lazy("Deleting for good"),
    "retention_sweep": gettext_lazy("Deleting data past its retention"),
    "scrub": gettext_lazy("Searching for a value"),
    "scrub_purge": gettext_lazy("Removing a value"),
    "scrub_on_host": gettext_lazy("Searching this host for a value"),
    "store_check": gettext_lazy("Checking the store"),
    "store_collect": gettext_lazy("Freeing space in the store"),
    "store_repair": gettext_lazy("Repairing the store"),
}
STEP_LABELS = {
    "files": gettext_lazy("fetching the files"),
    "pull": gettext_lazy("pulling the image"),
    "setup": gettext_lazy("running setup"),
    "snapshot": gettext_lazy("taking a snapshot"),
    "restore": gettext_lazy("restoring files"),
    "merge": gettext_lazy("merging the commits"),
    "checkpoint": gettext_lazy("putting disks and memory in place"),
    "archive": gettext_lazy("packing the files"),
    "verify": gettext_lazy("reading the snapshot back"),
    "bundle": gettext_lazy("packing the commits"),
    "look": gettext_lazy("asking the repository for its branches"),
    "push": gettext_lazy("sending the commits"),
    "pull_request": gettext_lazy("asking the code host"),
}


@dataclass
class OperationView:
    """An operation of a workspace, for display."""

    row: Operation

    @property
    def kind(self) -> str:
        return self.row.kind

    @property
    def words(self) -> str:
        return OPERATION_LABELS.get(self.kind) or gettext("Working")

    @property
    def heading(self) -> str:
        """What it does, and once it is over how it ended: "Restoring: done"."""
        if not self.is_over:
            return self.words
        if self.is_uncertain:
            return gettext("%(operation)s: outcome unknown") % {"operation": self.words}
        if self.went_well:
            return gettext("%(operation)s: done") % {"operation": self.words}
        return gettext("%(operation)s: not done") % {"operation": self.words}

    @property
    def step(self) -> str:
        if self.waits or self.row.phase == "due":
            return self.waits or gettext("queued")
        words = STEP_LABELS.get(self.row.progress.get("step"), "")
        return f"{words}, {self.counted}" if words and self.counted else words or self.counted

    @property
    def waits(self) -> str:
        """That it is done once its host or its driver answers, if it waits for that."""
        if words := place.waits_for(self.row):
            return words
        workspace = self.row.workspace
        is_lost = workspace is not None and workspace.reason_code in (StateCode.UNREACHABLE, StateCode.BACKEND_LOST)
        if WAITS not in self.row.progress and not (is_lost and self.kind in WAITING_KINDS):
            return ""
        return gettext("will be done when the engine answers")

    @property
    def counted(self) -> str:
        """For example "12,000 of 83,915 entries"; without the total if it is unknown, "" without progress."""
        done, total = self.row.progress.get("done"), self.row.progress.get("total")
        if done is None:
            return ""
        if total and done <= total:
            return gettext("%(done)s of %(total)s entries") % {"done": f"{done:,}", "total": f"{total:,}"}
        return gettext("%(n)s entries") % {"n": f"{done:,}"}

    @property
    def total(self) -> int | str:
        """The maximum of the progress bar; "" if it is unknown."""
        done, total = self.row.progress.get("done"), self.row.progress.get("total")
        return total if total and done is not None and done <= total else ""

    @property
    def is_uncertain(self) -> bool:
        """Whether nobody knows if it was carried out: a runner or another host did not say."""
        return self.row.phase == "uncertain" or bool((self.row.outcome or {}).get("uncertain"))

    @property
    def stop_needs(self) -> str:
        """The permission needed to cancel it; empty if it is over, already cancelled or cannot be cancelled."""
        asked = self.row.cancelled_at is not None or self.is_over
        return "" if asked else permission_to_cancel(self.row)

    @property
    def pushes(self) -> str:
        """What a push or a pull request pushes where, for its progress; "" for another operation."""
        if self.kind not in pushed.KINDS:
            return ""
        args = self.row.args
        names = {"sha": args.get("sha", "")[:10] or "HEAD", "branch": args.get("branch", "")}
        return gettext("Pushing %(sha)s to %(branch)s") % names

    @cached_property
    def paths(self) -> list[str]:
        """The paths of a partial restore; empty for one of the whole workspace."""
        return [os.fsdecode(base64.b64decode(path)) for path in self.row.args.get("paths_b64") or ()]

    @property
    def is_over(self) -> bool:
        return self.row.phase in ("settled", "uncertain")

    @property
    def went_well(self) -> bool:
        return bool(self.row.outcome and self.row.outcome.get("ok"))

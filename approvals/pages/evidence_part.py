"""The evidence of a card: what the call would do, or what was shown when it was approved."""

from functools import cached_property

from approvals.actions.asked_snapshots.state import AskedFiles, asked_files
from approvals.evidence import Evidence, evidence_of, is_quick
from approvals.evidence.keeping import unpack
from approvals.models import DecisionEvidence
from approvals.pages.bound_files import ShownFile, files_note, shown_files
from workspaces.changes.diff import FileDiff
from workspaces.changes.history import LIVE


class EvidencePart:
    """A card's evidence, and the files that it binds.

    The card has `action`, `revisions`, `revision`, `command`, `final`, `is_open`, `own_label` and `_in_workspace`.
    """

    @cached_property
    def asked_files(self) -> AskedFiles | None:
        return None if self.own_label else asked_files(self.action)

    @property
    def asked_snapshot_address(self) -> str:
        found = self.asked_files
        return self._in_workspace("snapshot", found.snapshot) if found and found.snapshot else ""

    @property
    def changed_since_asked(self) -> str:
        """The URL of what changed since the agent asked: up to now, or to just before it ran; "" without any."""
        found, before = self.asked_files, self.action.snapshot_before
        if not found or not found.snapshot or (self.action.consumed_at and before is None):
            return ""
        until = before.number if before else LIVE
        return f"{self._in_workspace('workspace-changes')}?from={found.snapshot}&to={until}"

    @cached_property
    def files(self) -> list[ShownFile]:
        """The files and commits that this revision binds besides the call."""
        before = self.revisions[-2] if len(self.revisions) > 1 else None
        return shown_files(self.revision, before, self.command or "")

    @property
    def files_to_read(self) -> list[ShownFile]:
        """Those whose contents or change are shown."""
        return [file for file in self.files if file.is_shown]

    @property
    def files_by_name(self) -> list[ShownFile]:
        """Those of which only the name is shown, such as commits."""
        return [file for file in self.files if not file.is_shown]

    @property
    def files_note(self) -> str:
        return files_note(self.action, self.revision) if self.is_open else ""

    @cached_property
    def evidence(self) -> Evidence:
        return self.kept_evidence or evidence_of(self.action, self.revision)

    @cached_property
    def kept_evidence(self) -> Evidence | None:
        """The evidence stored with the final decision; None while the action is open or if none was stored."""
        if self.is_open or self.final is None:
            return None
        kept = DecisionEvidence.objects.filter(decision=self.final.pk).first()
        return unpack(kept.body) if kept else None

    @property
    def evidence_comes_later(self) -> bool:
        """Whether the evidence takes a scan of the live tree, so that the card is shown before it."""
        return self.kept_evidence is None and not is_quick(self.action, self.revision)

    @property
    def shown_diffs(self) -> list[list[FileDiff]]:
        """The diffs that the card shows at once, each as its parts: a long one has two."""
        return [] if self.own_label or self.evidence_comes_later else self.evidence_diffs

    @property
    def evidence_diffs(self) -> list[list[FileDiff]]:
        evidence = self.evidence
        first = list(evidence.parts) if evidence.is_long else [evidence.diff]
        return [first, *([other] for other in evidence.others)] if evidence.diff else []

    @property
    def is_shown_by_diff(self) -> bool:
        """Whether the diff shows the whole change, so that its texts need not be shown again."""
        if self.evidence_comes_later:
            return False
        diff = self.evidence.diff
        return diff is not None and not diff.cut and not diff.binary and not diff.note

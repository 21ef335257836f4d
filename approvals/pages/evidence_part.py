"""The evidence of a card: what the call would do, or what was shown when it was approved."""

from functools import cached_property

from approvals.evidence import Evidence, evidence_of, is_quick
from approvals.evidence.keeping import unpack
from approvals.models import DecisionEvidence


class EvidencePart:
    """A card's evidence. The card has `action`, `revision`, `final` and `is_open`."""

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
    def is_shown_by_diff(self) -> bool:
        """Whether the diff shows the whole change, so that its texts need not be shown again."""
        if self.evidence_comes_later:
            return False
        diff = self.evidence.diff
        return diff is not None and not diff.cut and not diff.binary and not diff.note

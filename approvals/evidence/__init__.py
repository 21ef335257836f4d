"""Evidence: what an action would do, derived from the stored bytes and the live tree, never from the agent's claims."""

from .effects import evidence_of, is_quick, sent_by
from .findings import Allowance, Evidence, Finding, TimeLimit

__all__ = ["Allowance", "Evidence", "Finding", "TimeLimit", "evidence_of", "is_quick", "sent_by"]

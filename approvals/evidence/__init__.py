"""What an action would do, worked out by the server from the stored bytes and the live tree, never from words."""

from .effects import evidence_of, is_quick
from .findings import Evidence, Finding, Patience

__all__ = ["Evidence", "Finding", "Patience", "evidence_of", "is_quick"]

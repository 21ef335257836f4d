"""Handrail's snapshot engine: content-addressed, crash-safe, and knowing nothing of Django."""

from .diff import Change
from .errors import Cancelled, Damaged, Missing, StoreError
from .journal import recover
from .objects import Entry
from .progress import Progress
from .restore import Proof, Restored
from .scan import Skipped
from .store import Snapshot, Store
from .trees import LocalTree

__all__ = [
    "Cancelled",
    "Change",
    "Damaged",
    "Entry",
    "Imported",
    "Limits",
    "LocalTree",
    "Missing",
    "Progress",
    "Proof",
    "Restored",
    "Skipped",
    "Snapshot",
    "Store",
    "StoreError",
    "import_archive",
    "recover",
]


def __getattr__(name: str):
    # tarfile is slow to import, and most who use the store never unpack an archive.
    if name in ("Imported", "Limits", "import_archive"):
        from . import unpack

        return getattr(unpack, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

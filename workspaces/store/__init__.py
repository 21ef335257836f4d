"""Handrail's snapshot engine: a content-addressed, crash-safe store without Django."""

from importlib import import_module

from .errors import Cancelled, Damaged, Missing, StoreError
from .repository import Snapshot, Store

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


# Imported on first access: these names are rarely needed, and start-up time matters.
_LATER = {
    "Change": "diff",
    "Entry": "objects",
    "Imported": "unpack",
    "Limits": "unpack",
    "LocalTree": "tree",
    "Progress": "progress",
    "Proof": "restore",
    "Restored": "restore",
    "Skipped": "scan",
    "import_archive": "unpack",
    "recover": "journal",
}


def __getattr__(name: str):
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(f".{_LATER[name]}", __name__), name)
    return found

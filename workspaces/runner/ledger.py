"""Local record of the operations this runner has started, so that a restored database does not rerun them."""

import sqlite3
import threading
from pathlib import Path

from workspaces.operations import StaleEpoch


class Ledger:
    """The highest epoch seen of each operation and its phase. Thread-safe.

    "started" is durable before `write` returns. The other phases may be lost in a power failure, which is harmless: a
    claimed operation may be claimed again, and a started one is never rerun, settled or not.
    """

    def __init__(self, path: Path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS receipts (operation TEXT PRIMARY KEY, epoch INTEGER NOT NULL, "
            "phase TEXT NOT NULL, at TEXT NOT NULL DEFAULT (datetime('now')))"
        )

    def get(self, operation_id) -> tuple[int, str] | None:
        """Return (epoch, phase), the phase "claimed", "started" or "settled"; None for an unknown operation."""
        with self._lock:
            return self._db.execute(
                "SELECT epoch, phase FROM receipts WHERE operation = ?", [str(operation_id)]
            ).fetchone()

    def write(self, operation_id, epoch: int, phase: str):
        """Record the phase of an operation. Raise StaleEpoch if a later epoch is recorded already."""
        with self._lock:
            self._db.execute(f"PRAGMA synchronous={'FULL' if phase == 'started' else 'NORMAL'}")
            changed = self._db.execute(
                "INSERT INTO receipts (operation, epoch, phase) VALUES (?, ?, ?) "
                "ON CONFLICT (operation) DO UPDATE SET epoch = excluded.epoch, phase = excluded.phase, "
                "at = datetime('now') WHERE excluded.epoch >= receipts.epoch",
                [str(operation_id), epoch, phase],
            ).rowcount
        if not changed:
            raise StaleEpoch(operation_id)

    def forget_before(self, days: int):
        """Delete receipts of settled operations that are older than `days`."""
        with self._lock:
            self._db.execute(
                "DELETE FROM receipts WHERE phase = 'settled' AND at < datetime('now', ?)", [f"-{days} days"]
            )

    def close(self):
        self._db.close()

"""What this runner has started, in a file of its own: a database put back to yesterday runs nothing again."""

import sqlite3
import threading
from pathlib import Path

from workspaces.effects import Lost


class Ledger:
    """Effect id → the highest epoch seen and how far it got. Durable before it returns; safe between threads."""

    def __init__(self, path: Path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = threading.Lock()
        self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS receipts (effect TEXT PRIMARY KEY, epoch INTEGER NOT NULL, "
            "phase TEXT NOT NULL, at TEXT NOT NULL DEFAULT (datetime('now')))"
        )

    def get(self, effect_id) -> tuple[int, str] | None:
        """(epoch, "claimed", "started" or "settled"), or None for one never seen."""
        with self._lock:
            return self._db.execute("SELECT epoch, phase FROM receipts WHERE effect = ?", [str(effect_id)]).fetchone()

    def write(self, effect_id, epoch: int, phase: str):
        """Note that the effect got this far. Raises Lost when a later epoch was here already."""
        with self._lock:
            changed = self._db.execute(
                "INSERT INTO receipts (effect, epoch, phase) VALUES (?, ?, ?) "
                "ON CONFLICT (effect) DO UPDATE SET epoch = excluded.epoch, phase = excluded.phase, "
                "at = datetime('now') WHERE excluded.epoch >= receipts.epoch",
                [str(effect_id), epoch, phase],
            ).rowcount
        if not changed:
            raise Lost(effect_id)

    def forget_before(self, days: int):
        with self._lock:
            self._db.execute(
                "DELETE FROM receipts WHERE phase = 'settled' AND at < datetime('now', ?)", [f"-{days} days"]
            )

    def close(self):
        self._db.close()

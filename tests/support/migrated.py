"""The test database of one process, migrated and empty: those of all others of the run begin as copies of it.

A migration of an empty database takes as long as a few hundred tests.
"""

import fcntl
import shutil
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path

from django.db import connection


class Migrated:
    """What the processes of a run share in `folder`: the copy on SQLite, its name on PostgreSQL."""

    def __init__(self, folder: Path):
        self.file = folder / "migrated.sqlite3"
        self.name = folder / "migrated.name"
        self.is_ours = False  # this process has made it, and removes it
        self._create = None

    def lend(self):
        """Let the next test database that Django makes in this process be a copy, or the one that others copy."""
        self._create, connection.creation.create_test_db = connection.creation.create_test_db, self._create_or_copy

    def _create_or_copy(self, *args, **options) -> str:
        on_server = connection.vendor == "postgresql"
        with self._turn():
            if not (self.name if on_server else self.file).exists():
                made = self._create(*args, **options)
                (self._keep_on_server if on_server else self._keep_file)(made)
                return made
        if on_server:
            connection.settings_dict["TEST"]["TEMPLATE"] = self.name.read_text()
        else:
            shutil.copy(self.file, connection.creation._get_test_db_name())
            options["keepdb"] = True  # else Django would remove it first
        return self._create(*args, **options)  # finds nothing to migrate

    def _keep_file(self, made: str):
        half = self.file.with_suffix(".half")
        with closing(sqlite3.connect(made)) as source, closing(sqlite3.connect(half)) as target:
            source.backup(target)
        half.rename(self.file)

    def _keep_on_server(self, made: str):
        connection.close()
        kept, quote = f"{made}_migrated", connection.ops.quote_name
        with connection._nodb_cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {quote(kept)}")
            cursor.execute(f"CREATE DATABASE {quote(kept)} TEMPLATE {quote(made)}")
        self.name.write_text(kept)
        self.is_ours = True

    def take_back(self):
        """Remove the database that this process has kept for others on a server."""
        if self.is_ours:
            with self._turn(), connection._nodb_cursor() as cursor:
                kept = self.name.read_text()
                self.name.unlink()
                cursor.execute(f"DROP DATABASE IF EXISTS {connection.ops.quote_name(kept)}")

    @contextmanager
    def _turn(self):
        with self.file.with_name("migrated.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

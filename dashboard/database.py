"""The database as an operator sees it: is it sound, is it ours, what is pending, and a copy of it while it is used."""

import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader

from dashboard.keys import make_private


class DatabaseRefused(Exception):
    """This database must not be opened for work; the message says why and what to do."""


def is_sqlite() -> bool:
    return connection.vendor == "sqlite"


def sqlite_path() -> Path:
    return Path(connection.settings_dict["NAME"])


def newer_than_the_code() -> list[str]:
    """Migrations that this database has and this code does not know."""
    loader = MigrationLoader(connection)
    ours = set(loader.migrated_apps)
    return sorted(
        f"{app}.{name}" for app, name in set(loader.applied_migrations) - set(loader.disk_migrations) if app in ours
    )


def pending_migrations() -> list[str]:
    executor = MigrationExecutor(connection)
    return [f"{m.app_label}.{m.name}" for m, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())]


def is_empty() -> bool:
    return not connection.introspection.table_names()


def problems(path: Path | None = None) -> list[str]:
    """What SQLite's own quick check finds in this database, or in a copy; empty for a sound one, and for PostgreSQL."""
    if path is None and not is_sqlite():
        return []
    try:
        with closing(sqlite3.connect(f"file:{path or sqlite_path()}?mode=ro", uri=True, timeout=30)) as opened:
            found = [row[0] for row in opened.execute("PRAGMA quick_check(10)")]
    except sqlite3.DatabaseError as error:
        return [str(error)]
    return [] if found == ["ok"] else found


def copy_to(target: Path) -> Path:
    """Copy the SQLite database while others use it; the file appears under its name only when it is whole and sound."""
    make_private(target.parent)
    half = target.with_name(f".{target.name}.{os.getpid()}")
    half.unlink(missing_ok=True)
    os.close(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with closing(sqlite3.connect(sqlite_path(), timeout=30)) as source, closing(sqlite3.connect(half)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
        found = problems(half)
        if found:
            raise DatabaseRefused(f"The copy of the database is not sound: {found[0]}")
        with half.open("rb") as written:
            os.fsync(written.fileno())
        half.replace(target)
    finally:
        half.unlink(missing_ok=True)
    return target


def keep_newest(folder: Path, pattern: str, count: int):
    """Remove all but the newest copies; their names sort by time."""
    for old in sorted(folder.glob(pattern))[:-count]:
        old.unlink()


def copy_by_name(reason: str, *, keep: int) -> Path:
    """A copy under HANDRAIL_HOME/backups named by reason and time; only the newest of that reason stay."""
    folder = settings.HANDRAIL_HOME / "backups"
    made = copy_to(folder / f"{reason}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.sqlite3")
    keep_newest(folder, f"{reason}-*.sqlite3", keep)
    return made


def refuse_unfit():
    """Raise DatabaseRefused for a database that is damaged or belongs to a newer Handrail."""
    if is_sqlite() and sqlite_path().exists():
        found = problems()
        if found:
            raise DatabaseRefused(
                f"The database is damaged ({found[0]}). Nothing was changed. The hourly copies are in "
                f"{settings.HANDRAIL_HOME / 'backups'}; docs/operations.md says how to put one back."
            )
    newer = newer_than_the_code()
    if newer:
        raise DatabaseRefused(
            f"This database was last used by a newer Handrail: {', '.join(newer)} is not known here. Nothing was "
            "changed. Start the newer version, or put back a copy from before the upgrade (docs/operations.md)."
        )

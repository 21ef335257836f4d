"""The database for operations: integrity, version, pending migrations, and consistent copies while it is in use."""

import os
import sqlite3
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from django.conf import settings
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from dashboard.database.one_at_a_time import one_at_a_time
from dashboard.files.atomic_write import move_into_place
from dashboard.keys.key_files import make_private
from workspaces.host import versions

SQLITE_WAY_OUT = (
    "For one person there is nothing to do: Handrail checks the database at each start and copies it every hour. For a "
    "team, set DATABASE_URL to a PostgreSQL database before you begin (docs/operations.md)."
)
MIGRATING = 0x4861_6E64_7261_696C  # the advisory lock of a migration on PostgreSQL


class DatabaseRefused(Exception):
    """The database must not be used; the message says why and what to do."""


def is_sqlite() -> bool:
    return connection.vendor == "sqlite"


def sqlite_bug() -> str:
    """Return a sentence on the WAL-reset bug of SQLite 3.7.0 to 3.51.2 if this database may meet it, else ""."""
    if not is_sqlite() or sqlite3.sqlite_version_info >= (3, 51, 3):
        return ""
    version = sqlite3.sqlite_version
    return f"SQLite {version} can in rare cases damage a database that several programs write (fixed in 3.51.3)."


def sqlite_path() -> Path:
    return Path(connection.settings_dict["NAME"])


def applied_migrations() -> set[tuple[str, str]]:
    """Return the migrations applied to this database, as (app, name)."""
    return set(MigrationRecorder(connection).applied_migrations())


def misfit_here() -> tuple[str, str] | None:
    """Return why this code cannot use its database, and what to do; None if it can.

    It can go on with one that a host of the next version has migrated (workspaces/host/versions.py).
    """
    applied = applied_migrations()
    newer, _ = _unknown_and_lacking(applied)
    return misfit(applied, newer_is_fine=bool(newer) and not is_sqlite() and versions.has_newer_neighbour())


def misfit(applied: set[tuple[str, str]], *, newer_is_fine: bool = False) -> tuple[str, str] | None:
    """Return why this code cannot use a database with these migrations applied, and what to do; None if it can."""
    newer, lacking = _unknown_and_lacking(applied)
    if newer and not newer_is_fine:
        return (
            f"was last used by a newer Handrail: {', '.join(newer)} is not known here.",
            "Start the newer version, or restore a copy from before the upgrade (docs/operations.md). "
            f"Data of a Handrail before 0.1.0 cannot be used: move {settings.HANDRAIL_HOME} away and start again.",
        )
    if lacking:
        named = ", ".join(lacking[:3]) + (f" and {len(lacking) - 3} more" if len(lacking) > 3 else "")
        return (
            f"was last used by an older Handrail: it lacks {named}, which this version no longer has.",
            "Let the last version that has them use it once, then this one (docs/operations.md, Upgrade).",
        )
    return None


def _unknown_and_lacking(applied: set[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Return the applied migrations that this code does not have, and those that it lacks to take the rest as applied.

    A migration that replaces others can be applied only if none of them is, and counts as applied only if all are.
    """
    loader = MigrationLoader(None)
    unknown, lacking = applied - set(loader.disk_migrations), set()
    for key, replacing in loader.replacements.items():
        unknown -= set(replacing.replaces)
        if applied & {key, *replacing.replaces}:
            lacking |= set(replacing.replaces) - applied
    ours = (migration for migration in unknown if migration[0] in loader.migrated_apps)
    return tuple(sorted(f"{app}.{name}" for app, name in found) for found in (ours, lacking))


def pending_migrations() -> list[str]:
    """Return the migrations of this code that are not applied yet, as "app.name"."""
    executor = MigrationExecutor(connection)
    return [f"{m.app_label}.{m.name}" for m, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())]


@contextmanager
def migrating():
    """Hold back other hosts that start on the same PostgreSQL database until this one has migrated it."""
    with one_at_a_time(MIGRATING):  # a SQLite database is in a HANDRAIL_HOME, which is locked
        yield


def is_empty() -> bool:
    """Return True if the database has no tables."""
    return not connection.introspection.table_names()


def problems(path: Path | None = None) -> list[str]:
    """Return the errors SQLite's quick_check finds in the database or in a copy; empty if sound, or on PostgreSQL."""
    if path is None and not is_sqlite():
        return []
    try:
        with closing(sqlite3.connect(f"file:{path or sqlite_path()}?mode=ro", uri=True, timeout=30)) as opened:
            found = [row[0] for row in opened.execute("PRAGMA quick_check(10)")]
    except sqlite3.DatabaseError as error:
        return [str(error)]
    return [] if found == ["ok"] else found


def copy_to(target: Path) -> Path:
    """Copy the SQLite database while it is in use; `target` appears only once the copy is complete and checked."""
    make_private(target.parent)
    half = target.with_name(f".{target.name}.{os.getpid()}")
    half.unlink(missing_ok=True)
    os.close(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        with closing(sqlite3.connect(sqlite_path(), timeout=30)) as source, closing(sqlite3.connect(half)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")  # a single file, without a WAL
        found = problems(half)
        if found:
            raise DatabaseRefused(f"The copy of the database is not sound: {found[0]}")
        move_into_place(half, target)
    finally:
        half.unlink(missing_ok=True)
    return target


def keep_newest(folder: Path, pattern: str, count: int):
    """Remove all but the newest `count` copies; their names sort by time."""
    for old in sorted(folder.glob(pattern))[:-count]:
        old.unlink()


def copy_by_name(reason: str, *, keep: int) -> Path:
    """Copy the database to HANDRAIL_HOME/backups/REASON-TIME.sqlite3 and keep the `keep` newest for that reason."""
    folder = settings.HANDRAIL_HOME / "backups"
    made = copy_to(folder / f"{reason}-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.sqlite3")
    keep_newest(folder, f"{reason}-*.sqlite3", keep)
    return made


def refuse_misfit(applied: set[tuple[str, str]], subject="This database"):
    """Raise DatabaseRefused if a newer Handrail migrated this database, or an older one did not bring it far enough."""
    _refuse(misfit(applied), subject)


def _refuse(found: tuple[str, str] | None, subject: str):
    if found:
        words, fix = found
        raise DatabaseRefused(f"{subject} {words} Nothing was changed. {fix}")


def refuse_unfit():
    """Raise DatabaseRefused if the database is damaged or of a version that this code cannot go on from."""
    if is_sqlite() and sqlite_path().exists():
        found = problems()
        if found:
            raise DatabaseRefused(
                f"The database is damaged ({found[0]}). Nothing was changed. The hourly copies are in "
                f"{settings.HANDRAIL_HOME / 'backups'}; docs/operations.md says how to put one back."
            )
    _refuse(misfit_here(), "This database")

"""Whether a backup is complete and undamaged: the sizes and checksums of its files, and its SQLite database."""

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path

FORMAT, VERSION = "handrail-backup", 1
MANIFEST, TAR = "manifest.json", "home.tar.zst"
SQLITE, POSTGRES = "database.sqlite3", "database.dump"


class BadBackup(ValueError):
    """A backup that could not be restored; the message says why, on one line."""


def measure(path: Path) -> dict:
    """Return the checksum and size of a file, as the manifest names them."""
    with path.open("rb") as opened:
        return {"sha256": hashlib.file_digest(opened, "sha256").hexdigest(), "bytes": path.stat().st_size}


def verify(folder: Path) -> dict:
    """Return the manifest of a complete backup whose files are what it says. Raise BadBackup."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        known = (manifest["format"], manifest["version"]) == (FORMAT, VERSION)
        files = dict(manifest["files"])
    except FileNotFoundError:
        raise BadBackup(f"{folder} is not a complete backup: it has no {MANIFEST}.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadBackup(f"{folder / MANIFEST} cannot be read: {error}.") from None
    if not known:
        raise BadBackup(f"{folder} is not a backup, or its format is not supported by this version.")
    if set(files) not in ({SQLITE, TAR}, {POSTGRES, TAR}):
        raise BadBackup(f"The backup is damaged: {MANIFEST} does not name a database and {TAR}.")
    for name, expected in files.items():
        try:
            found = measure(folder / name)
        except OSError as error:
            raise BadBackup(f"The backup is damaged: {name} cannot be read ({error.strerror}).") from None
        if found != expected:
            raise BadBackup(f"The backup is damaged: the checksum of {name} does not match.")
    return manifest


def check_database(folder: Path):
    """Have SQLite check the backup's database, if it has one of SQLite. Raise BadBackup."""
    path = folder / SQLITE
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as opened:
            [(found,)] = opened.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.DatabaseError as error:
        found = str(error)
    if found != "ok":
        raise BadBackup(f"The backup's database is damaged: {found}.")

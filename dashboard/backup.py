"""Backup and restore of a whole Handrail: database, keys, ledger, snapshots and workspaces' files in one folder.

DIR/database.sqlite3 or DIR/database.dump   the database
DIR/home.tar.zst                            keys/ runner/ stores/ workspaces/ of HANDRAIL_HOME
DIR/manifest.json                           what the others must be, byte for byte; written last

Every snapshot in the saved database has its packs: while the database is copied the stores' writer locks are held and
their files, which only grow or are replaced as a whole, are linked aside. The ledger is copied after the database, so
that it knows at least what the database knows. So are the keys, of which none goes while the database is copied.
Workspaces' files are copied as they are then, programs or not.
"""

import fcntl
import hashlib
import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import zstandard
from django.conf import settings
from django.db import connection

from dashboard import database, keyring
from dashboard.keys import make_private
from workspaces.store.lock import writing

FORMAT, VERSION = "handrail-backup", 1
MANIFEST, TAR = "manifest.json", "home.tar.zst"
PIECE = 1 << 20
# Of HANDRAIL_HOME. Not: runs/ (programs that live on this host only), caches, collected static files, copies.
KEPT = ("keys", "runner", "stores", "workspaces")


class BackupError(Exception):
    """The backup cannot be made or put back; the message says why, and that nothing was changed."""


def make(target: Path) -> dict:
    """Make a backup in a new or empty folder, while Handrail runs or not; its manifest. Raises BackupError."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BackupError(f"{target} is there already and is not an empty folder. Name a new one.")
    try:
        make_private(target)
        with tempfile.TemporaryDirectory(prefix=".backup-", dir=settings.HANDRAIL_HOME) as aside:
            base = _copy_database(target, Path(aside))
            _copy_ledger(Path(aside))
            _pack(target / TAR, Path(aside))
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "database": connection.vendor,
            "files": {path.name: _measure(path) for path in (base, target / TAR)},
        }
        _write_durably(target / MANIFEST, json.dumps(manifest, indent=1).encode() + b"\n")
    except (OSError, sqlite3.Error, database.DatabaseRefused) as error:
        raise BackupError(f"The backup in {target} is not complete: {error}. Remove it and try again.") from error
    return manifest


def _copy_database(target: Path, aside: Path) -> Path:
    """The database, and beside it the stores as they are at that instant, linked into `aside`."""
    stores = sorted(path for path in (settings.HANDRAIL_HOME / "stores").glob("*") if (path / "format").exists())
    with ExitStack() as locks:
        locks.enter_context(keyring.steady())
        for store in stores:
            locks.enter_context(writing(store))
        if database.is_sqlite():
            copied = database.copy_to(target / "database.sqlite3")
        else:
            copied = target / "database.dump"
            _postgres("pg_dump", "--format=custom", "--no-owner", f"--file={copied}")
        for store in stores:
            # Caches speak of inodes of this disk, and holds of processes of this host.
            shutil.copytree(
                store,
                aside / "stores" / store.name,
                copy_function=os.link,
                ignore=shutil.ignore_patterns("lock", "caches", "holds"),
            )
            for name in ("caches", "holds"):
                (aside / "stores" / store.name / name).mkdir(mode=0o700)
        shutil.copytree(settings.KEYS_DIR, aside / "keys", ignore=shutil.ignore_patterns(".*", "*.lock"))
    return copied


def _copy_ledger(aside: Path):
    folder = settings.HANDRAIL_HOME / "runner"
    make_private(aside / "runner")
    for path in sorted(folder.glob("*.sqlite3")):
        with closing(sqlite3.connect(path, timeout=30)) as source:
            with closing(sqlite3.connect(aside / "runner" / path.name)) as copy:
                source.backup(copy)


def _pack(target: Path, aside: Path):
    """One compressed tar, with everything that a file can have: owners, modes, times, attributes, holes, links."""
    home = settings.HANDRAIL_HOME
    argv = ["tar", "--create", "--format=posix", "--numeric-owner", "--xattrs", "--acls", "--sparse"]
    for folder, names in ((aside, ("keys", "runner", "stores")), (home, ("workspaces",))):
        if there := [name for name in names if (folder / name).exists()]:
            argv += ["-C", str(folder), *there]
    with tempfile.TemporaryFile() as said, target.open("xb") as out:
        tar = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said)
        with tar.stdout, zstandard.ZstdCompressor(level=3).stream_writer(out, closefd=False) as packed:
            shutil.copyfileobj(tar.stdout, packed, PIECE)
        status = tar.wait()
        if status not in (0, 1):  # 1: a file changed or went while it was read, as files of running programs do
            said.seek(0)
            raise OSError(f"tar ended with {status}: {said.read()[-500:].decode(errors='replace').strip()}")
        os.fsync(out.fileno())


def _measure(path: Path) -> dict:
    with path.open("rb") as opened:
        return {"sha256": hashlib.file_digest(opened, "sha256").hexdigest(), "bytes": path.stat().st_size}


def _write_durably(path: Path, content: bytes):
    with path.open("xb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_manifest(source: Path) -> dict:
    """The manifest of a backup that is whole. Raises BackupError, also for one that was damaged since."""
    try:
        manifest = json.loads((source / MANIFEST).read_bytes())
        known = (manifest["format"], manifest["version"]) == (FORMAT, VERSION)
        files = dict(manifest["files"])
    except FileNotFoundError:
        raise BackupError(f"{source} holds no complete backup: there is no {MANIFEST}.") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BackupError(f"{source / MANIFEST} cannot be read: {error}.") from None
    if not known:
        raise BackupError(f"{source} is not a backup that this version understands.")
    for name, expected in files.items():
        try:
            found = _measure(source / name)
        except OSError as error:
            raise BackupError(f"The backup is damaged: {name} cannot be read ({error.strerror}).") from None
        if found != expected:
            raise BackupError(f"The backup is damaged: {name} is not what it was when the backup was made.")
    return manifest


RESTORING = ".restoring"  # in HANDRAIL_HOME while a backup is put back; `up` refuses to start beside it
DATABASE = "handrail.sqlite3"


def restore(source: Path, settle) -> dict:
    """Put a backup back into an empty HANDRAIL_HOME; its manifest. Raises BackupError with nothing changed.

    `settle(manifest)` is called once the database is in place and before anything else can open it here: it sees to it
    that nothing runs again.
    """
    home = settings.HANDRAIL_HOME
    manifest = read_manifest(source)
    if manifest["database"] != connection.vendor:
        raise BackupError(
            f"This backup is of a {manifest['database']} database and DATABASE_URL names {connection.vendor}."
        )
    _refuse_unless_empty(home)
    with _not_running(home):
        staged = make_private(home / RESTORING)
        try:
            _unpack(source / TAR, staged)
            _put_database_back(source, staged)
            settle(manifest)
            connection.close()
            for name in KEPT:
                if (staged / name).exists():
                    if (home / name).exists():
                        shutil.rmtree(home / name)  # keys: those that this very command has just made
                    (staged / name).rename(home / name)
            for part in sorted(staged.glob(f"{DATABASE}*")):
                part.rename(home / part.name)
            staged.rmdir()
        except (OSError, sqlite3.Error) as error:
            raise BackupError(f"The backup could not be put back: {error}. Empty {home} and try again.") from error
    return manifest


def _refuse_unless_empty(home: Path):
    """Looking at a fresh home leaves keys and a database without tables behind; anything more is somebody's."""
    may_be_there = ("keys", "cache", "up.lock", DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm")
    there = sorted(path.name for path in home.iterdir() if path.name not in may_be_there)
    if there:
        raise BackupError(f"A backup is put back into an empty HANDRAIL_HOME only; {home} holds {', '.join(there)}.")
    if not database.is_empty():
        raise BackupError("A backup is put back into an empty database only; this one has tables. Nothing was changed.")
    connection.close()
    for empty in home.glob(f"{DATABASE}*"):
        empty.unlink()


@contextmanager
def _not_running(home: Path):
    fd = os.open(home / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupError(f"Handrail runs on {home}. Stop it first. Nothing was changed.") from None
        yield
    finally:
        os.close(fd)


def _unpack(packed: Path, target: Path):
    argv = ["tar", "--extract", "--preserve-permissions", "--numeric-owner", "--xattrs", "--xattrs-include=*", "--acls"]
    with tempfile.TemporaryFile() as said, packed.open("rb") as opened:
        tar = subprocess.Popen([*argv, "-C", str(target)], stdin=subprocess.PIPE, stderr=said)
        try:
            with tar.stdin, zstandard.ZstdDecompressor().stream_reader(opened) as plain:
                shutil.copyfileobj(plain, tar.stdin, PIECE)
        except BrokenPipeError:
            pass  # tar has ended, and says why
        if tar.wait():
            said.seek(0)
            raise OSError(f"tar said: {said.read()[-500:].decode(errors='replace').strip()}")


def _put_database_back(source: Path, staged: Path):
    """SQLite: as a file in the staging folder, where this process opens it; it gets its place when all is done."""
    if connection.vendor == "sqlite":
        copied = staged / DATABASE
        shutil.copyfile(source / "database.sqlite3", copied)
        copied.chmod(0o600)
        connection.close()
        connection.settings_dict["NAME"] = str(copied)
    else:
        _postgres("pg_restore", "--no-owner", "--exit-on-error", "--single-transaction", source / "database.dump")


def _postgres(program: str, *args):
    """pg_dump or pg_restore against DATABASE_URL; the password travels in the environment, never in argv."""
    found = settings.DATABASES["default"]
    wanted = {"PGHOST": "HOST", "PGPORT": "PORT", "PGUSER": "USER", "PGPASSWORD": "PASSWORD", "PGDATABASE": "NAME"}
    env = os.environ | {name: str(found[key]) for name, key in wanted.items() if found.get(key)}
    if program == "pg_restore":
        args = (f"--dbname={found['NAME']}", *args)
    try:
        done = subprocess.run([program, *map(str, args)], env=env, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BackupError(f"{program} is missing: install PostgreSQL's client programs (postgresql-client).") from None
    if done.returncode:
        raise BackupError(f"{program} failed: {done.stderr.strip()[-500:]}")

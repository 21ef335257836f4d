"""Backup and restore of an installation: database, keys, ledger, snapshots and workspace files in one folder.

DIR/database.sqlite3 or DIR/database.dump   the database
DIR/home.tar.zst                            checkpoints/ keys/ runner/ stores/ workspaces/ of HANDRAIL_HOME
DIR/manifest.json                           size and SHA-256 of the others; written last

Every snapshot in the saved database has its packs: while the database is copied, the stores' writer locks are held and
their files, which are only appended to or replaced as a whole, are hard-linked aside. The ledger is copied after the
database, so it knows at least what the database knows. The same holds for the keys: none is removed while the database
is copied. Workspace files are copied as they are at that time, whether or not programs are running.
"""

import json
import os
import shutil
import sqlite3
import subprocess
import tempfile
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from pathlib import Path

import zstandard
from django.conf import settings
from django.db import connection

from dashboard.files.atomic_write import replace_file
from dashboard.files.locks import take_lock
from dashboard.keys import keyring
from dashboard.keys.key_files import make_private
from dashboard.ops import database
from handrail_verify.backup import FORMAT, MANIFEST, POSTGRES, SQLITE, TAR, VERSION, BadBackup, measure, verify
from workspaces.changes import stores
from workspaces.store import StoreError
from workspaces.store.lock import writing
from workspaces.store.zstd_stream import ZstdReader

CHUNK_BYTES = 1 << 20
# Folders of HANDRAIL_HOME. Not saved: runs/ (programs that live on this host only), caches, static files, copies.
KEPT = ("checkpoints", "keys", "runner", "stores", "workspaces")


class BackupError(Exception):
    """The backup cannot be made or restored; the message says why."""


def make(target: Path) -> dict:
    """Make a backup in a new or empty folder, also while Handrail runs; return its manifest. Raise BackupError."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise BackupError(f"{target} exists and is not an empty folder. Choose another one.")
    if wrong := stores.troubles():
        raise BackupError(" ".join(f"The store of {team.slug} cannot be backed up: {words}." for team, words in wrong))
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
            "stores": stores.in_bucket(),  # their bytes are the bucket's to keep
            "files": {path.name: measure(path) for path in (base, target / TAR)},
        }
        replace_file(target / MANIFEST, json.dumps(manifest, indent=1).encode() + b"\n")
    except (OSError, sqlite3.Error, database.DatabaseRefused, StoreError) as error:
        raise BackupError(f"The backup in {target} is incomplete: {error}. Remove it and try again.") from error
    return manifest


def _copy_database(target: Path, aside: Path) -> Path:
    """Copy the database, and hard-link the stores as they are at that instant into `aside`."""
    stores = sorted(path for path in (settings.HANDRAIL_HOME / "stores").glob("*") if (path / "format").exists())
    with ExitStack() as locks:
        locks.enter_context(keyring.steady())
        for store in stores:
            locks.enter_context(writing(store))
        if database.is_sqlite():
            copied = database.copy_to(target / SQLITE)
        else:
            copied = target / POSTGRES
            copied.touch(mode=0o600)
            _postgres("pg_dump", "--format=custom", "--no-owner", f"--file={copied}")
        for store in stores:
            # Caches name inodes of this disk, and holds name processes of this host.
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
    """Write one compressed tar that preserves owners, modes, times, xattrs, ACLs, holes and links."""
    home = settings.HANDRAIL_HOME
    argv = ["tar", "--create", "--format=posix", "--numeric-owner", "--xattrs", "--acls", "--sparse"]
    for folder, names in ((aside, ("keys", "runner", "stores")), (home, ("workspaces", "checkpoints"))):
        if there := [name for name in names if (folder / name).exists()]:
            argv += ["-C", str(folder), *there]
    private = partial(os.open, mode=0o600)  # it holds all keys
    with tempfile.TemporaryFile() as errors, open(target, "xb", opener=private) as out:
        tar = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        with tar.stdout, zstandard.ZstdCompressor(level=3).stream_writer(out, closefd=False) as packed:
            shutil.copyfileobj(tar.stdout, packed, CHUNK_BYTES)
        status = tar.wait()
        if status not in (0, 1):  # 1: a file changed or went while it was read, as files of running programs do
            errors.seek(0)
            raise OSError(f"tar ended with {status}: {errors.read()[-500:].decode(errors='replace').strip()}")
        os.fsync(out.fileno())


def read_manifest(source: Path) -> dict:
    """Return the manifest of a complete backup. Raise BackupError, also if a file was damaged since."""
    try:
        return verify(source)
    except BadBackup as error:
        raise BackupError(str(error)) from None


RESTORING = ".restoring"  # in HANDRAIL_HOME during a restore; `up` refuses to start while it exists
DATABASE = "handrail.sqlite3"


def restore(source: Path, settle) -> dict:
    """Restore a backup into an empty HANDRAIL_HOME and return its manifest. Raise BackupError or DatabaseRefused.

    `settle(manifest)` is called once the database is in place and before any other process can open it here; it must
    make sure that nothing runs again.
    """
    home = settings.HANDRAIL_HOME
    manifest = read_manifest(source)
    if manifest["database"] != connection.vendor:
        raise BackupError(
            f"This backup is of a {manifest['database']} database, but DATABASE_URL is a {connection.vendor} database."
        )
    database.refuse_misfit(_applied_in(source), "The database of this backup")
    _refuse_unless_empty(home)
    with _not_running(home):
        staged = make_private(home / RESTORING)
        try:
            _unpack(source / TAR, staged)
            _load_database(source, staged)
            settle(manifest)
            connection.close()
            for name in KEPT:
                if (staged / name).exists():
                    if (home / name).exists():
                        shutil.rmtree(home / name)  # keys: those that this command has just created
                    (staged / name).rename(home / name)
            for part in sorted(staged.glob(f"{DATABASE}*")):
                part.rename(home / part.name)
            staged.rmdir()
        except (OSError, sqlite3.Error) as error:
            raise BackupError(f"The backup could not be restored: {error}. Empty {home} and try again.") from error
    return manifest


def _applied_in(source: Path) -> set[tuple[str, str]]:
    """Return the migrations applied to the database of a backup, which is only read."""
    if connection.vendor == "sqlite":
        with closing(sqlite3.connect(f"{(source / SQLITE).as_uri()}?mode=ro", uri=True)) as opened:
            return set(opened.execute("SELECT app, name FROM django_migrations"))
    dumped = _postgres("pg_restore", "--data-only", "--table=django_migrations", "--file=-", source / POSTGRES)
    lines = iter(dumped.splitlines())
    for line in lines:
        if line.startswith("COPY ") and line.endswith(" (id, app, name, applied) FROM stdin;"):
            return {tuple(row.split("\t")[1:3]) for row in takewhile(lambda row: row != "\\.", lines)}
    return set()


def _refuse_unless_empty(home: Path):
    """Refuse a home in use. Opening a fresh one leaves only keys and a database without tables behind."""
    may_be_there = ("keys", "cache", "up.lock", DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm")
    there = sorted(path.name for path in home.iterdir() if path.name not in may_be_there)
    if there:
        raise BackupError(
            f"A backup can only be restored into an empty HANDRAIL_HOME; {home} contains {', '.join(there)}."
        )
    if not database.is_empty():
        raise BackupError(
            "A backup can only be restored into an empty database; this one has tables. Nothing was changed."
        )
    connection.close()
    for empty in home.glob(f"{DATABASE}*"):
        empty.unlink()


@contextmanager
def _not_running(home: Path):
    try:
        fd = take_lock(home / "up.lock", wait=0)
    except BlockingIOError:
        raise BackupError(f"Handrail is running on {home}. Stop it first. Nothing was changed.") from None
    try:
        yield
    finally:
        os.close(fd)


def _unpack(packed: Path, target: Path):
    argv = ["tar", "--extract", "--preserve-permissions", "--numeric-owner", "--xattrs", "--xattrs-include=*", "--acls"]
    read_archive(packed, [*argv, "-C", str(target)])


def read_archive(packed: Path, argv: list[str]):
    """Run tar over a compressed archive. Raise OSError if tar fails or if the archive is cut off or damaged."""
    problem = ""
    with tempfile.TemporaryFile() as errors, packed.open("rb") as opened:
        tar = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors)
        try:
            with tar.stdin:
                shutil.copyfileobj(ZstdReader(opened), tar.stdin, CHUNK_BYTES)
        except BrokenPipeError:
            pass  # tar has ended; its stderr says why
        except (EOFError, zstandard.ZstdError) as error:
            problem = str(error)
        if tar.wait() and not problem:
            errors.seek(0)
            problem = errors.read()[-500:].decode(errors="replace").strip()
    if problem:
        raise OSError(f"tar failed: {problem}")


def _load_database(source: Path, staged: Path):
    """Load the database. SQLite: into the staging folder, where this process opens it, and moved when all is done."""
    if connection.vendor == "sqlite":
        copied = staged / DATABASE
        shutil.copyfile(source / SQLITE, copied)
        copied.chmod(0o600)
        connection.close()
        connection.settings_dict["NAME"] = str(copied)
    else:
        target = f"--dbname={settings.DATABASES['default']['NAME']}"
        _postgres("pg_restore", target, "--no-owner", "--exit-on-error", "--single-transaction", source / POSTGRES)


def _postgres(program: str, *args) -> str:
    """Run pg_dump or pg_restore for DATABASE_URL and return its output. The password is passed in the environment."""
    found = settings.DATABASES["default"]
    wanted = {"PGHOST": "HOST", "PGPORT": "PORT", "PGUSER": "USER", "PGPASSWORD": "PASSWORD", "PGDATABASE": "NAME"}
    env = os.environ | {name: str(found[key]) for name, key in wanted.items() if found.get(key)}
    try:
        done = subprocess.run([program, *map(str, args)], env=env, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BackupError(f"{program} not found: install PostgreSQL's client programs (postgresql-client).") from None
    if done.returncode:
        raise BackupError(f"{program} failed: {done.stderr.strip()[-500:]}")
    return done.stdout

"""Read a workspace's notes from its tree for each snapshot, and give it notes and lessons at the start of a run."""

import hashlib
import logging
import stat
from contextlib import closing

from dashboard.database import clock
from dashboard.models import Team
from dashboard.problems import Problem
from workspaces import lifecycle
from workspaces.drivers.base import DriverError
from workspaces.models import NoteVersion, Workspace
from workspaces.runner import files
from workspaces.services.notes import lessons, texts, versions
from workspaces.store import Missing, StoreError

logger = logging.getLogger("handrail.runner")


def read(opened, path: bytes, limit: int) -> bytes | None:
    """Return the first `limit` bytes of a regular file of an open tree; None if there is no such file.

    Raise OSError or StoreError if the file is there and cannot be read.
    """
    try:
        if not stat.S_ISREG(opened.stat(path).st_mode):
            return None
        with closing(opened.open(path)) as file:
            data = b""
            while len(data) < limit and (piece := file.pread(limit - len(data), len(data))):
                data += piece
            return data
    except (FileNotFoundError, NotADirectoryError, Missing):
        return None


def read_stored(workspace, opened) -> texts.NoteText | None:
    """Return the notes of an open tree as they are stored; None if they cannot be read, or searched for secrets."""
    try:
        data = read(opened, versions.PATH, texts.READ_BYTES)
        return texts.NoteText() if data is None else texts.stored(workspace, data)
    except (OSError, StoreError, Problem):
        logger.exception("the notes of %s could not be read", workspace.pk)
        return None


def keep_alone(workspace, tree, *, by):
    """Keep the notes of a live tree whose snapshot was refused; a secret's value is redacted in them."""
    try:
        with tree.files() as opened:
            found = read_stored(workspace, opened)
    except (OSError, DriverError, StoreError):
        logger.exception("the notes of %s could not be read", workspace.pk)
        return
    if found is not None:
        with Team.objects.turn(workspace.team_id):
            versions.save_if_changed(Workspace.objects.locked().get(pk=workspace.pk), found, by=by)


def lessons_digest(opened) -> str | None:
    """Return the SHA-256 of the lessons in an open tree; None without a readable file of them."""
    try:
        data = read(opened, lessons.PATH, lessons.MAX_FILE_BYTES + 1)
    except (OSError, StoreError):
        return None
    return None if data is None else hashlib.sha256(data).hexdigest()


def manifest_facts(version: NoteVersion | None, lessons_sha256: str | None) -> dict | None:
    """Return what a manifest says of the notes that are there: version, digest and author, and the lessons' digest."""
    about = {"version": version.number, "sha256": version.sha256, "by": version.by} if version else {}
    return about | ({"lessons_sha256": lessons_sha256} if lessons_sha256 else {}) or None


async def write_into_workspace(job):
    """Write a waiting edit and the lessons into a workspace that has come up, and remove notes that have expired.

    Return what the run's manifest says of the notes. What cannot be written does not keep the workspace from starting.
    """
    try:
        tree = await job.readable_tree()
        if await job.thread(_is_due, job.workspace, tree):
            await job.progress(gives=True)  # see Resume.recover
            async with job.lock():
                await job.thread(_give, job, tree)
        return await job.thread(_facts_for_manifest, job.workspace, tree)
    except (OSError, DriverError, StoreError, Problem):
        logger.exception("the notes of %s were not given", job.workspace.pk)
        return None


def give_lessons(workspace, tree):
    """Write the repository's lessons into the files of a workspace, of a new one before its first snapshot."""
    try:
        _write_lessons(workspace, tree)
    except (OSError, DriverError, StoreError, Problem):
        logger.exception("the lessons were not given to %s", workspace.pk)


def _is_due(workspace, tree) -> bool:
    if versions.waiting(workspace) is not None or _expired(workspace, tree) is not None:
        return True
    return _lessons_due(workspace, tree)[0]


def _give(job, tree):
    workspace = job.workspace
    wanted = versions.waiting(workspace)
    if wanted is not None and wanted.is_expired(clock.now()):
        wanted = None
    if wanted is not None:
        files.write(tree, versions.PATH, wanted.text.encode(), owner=workspace.uid)
        with Team.objects.turn(workspace.team_id):
            NoteVersion.objects.filter(pk=wanted.pk).update(given_at=clock.now())
            lifecycle.record(workspace, job.by, "notes.given", {"version": wanted.number, "sha256": wanted.sha256})
    elif (gone := _expired(workspace, tree)) is not None:
        files.delete(tree, versions.PATH)
        data = {"version": gone.number, "sha256": gone.sha256}
        lifecycle.record(workspace, job.by, "notes.expired", data)
    _write_lessons(workspace, tree)


def _expired(workspace, tree) -> NoteVersion | None:
    """Return the version that is the file and has expired; never in a connected folder, whose files are a person's."""
    known = versions.in_file(workspace)
    if known is None or workspace.environment.capabilities.own_folder or not known.is_expired(clock.now()):
        return None
    with tree.files() as opened:
        return known if read(opened, versions.PATH, 1) is not None else None


def _lessons_due(workspace, tree) -> tuple[bool, str]:
    """Return (whether the file of lessons has to change, its text; "" for no file)."""
    wanted = lessons.for_workspace(workspace)
    with tree.files() as opened:
        data = read(opened, lessons.PATH, lessons.MAX_FILE_BYTES + 1)
    there = data.decode("utf-8", "replace") if data is not None else ""
    if workspace.environment.capabilities.own_folder or (not wanted and not there.startswith(lessons.TITLE)):
        return False, wanted  # a file of that name that the repository brings is left alone
    return there != wanted, wanted


def _write_lessons(workspace, tree):
    due, wanted = _lessons_due(workspace, tree)
    if due and wanted:
        files.write(tree, lessons.PATH, wanted.encode(), owner=workspace.uid)
    elif due:
        files.delete(tree, lessons.PATH)


def _facts_for_manifest(workspace, tree) -> dict | None:
    with tree.files() as opened:
        there = read(opened, versions.PATH, 1) is not None
        return manifest_facts(versions.in_file(workspace) if there else None, lessons_digest(opened))

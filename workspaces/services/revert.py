"""Revert a part of the changes: a file, or one hunk of it, after a safety snapshot of the current files."""

import hashlib

from dashboard.models import Actor
from dashboard.problems import Problem, conflict, invalid, not_found, unavailable
from workspaces import lifecycle, operations
from workspaces.changes import file_writes, history
from workspaces.changes.comparisons import Point
from workspaces.models import Operation
from workspaces.store import text as store_text
from workspaces.store.lines import split_lines

MAX_COPIED = 32 << 20  # bytes of a file that is taken from another workspace


def digest_of(content: bytes) -> str:
    """Return a digest of the content that a person saw, so that no other content is overwritten."""
    return hashlib.sha256(content).hexdigest()


def file(workspace, point: Point, paths: list[bytes], *, by: Actor) -> Operation:
    """Restore one file as it is at a point; `paths` are its current path and, if it was renamed, its old one.

    Return the operation: of the restore, or of the safety snapshot if the point is another workspace's.
    """
    if not paths or not all(paths):
        raise invalid("No file was given.")
    if point.workspace.pk == workspace.pk and point.at != history.LIVE:
        return lifecycle.restore(workspace, point.at, by=by, paths=paths)
    if point.workspace.pk == workspace.pk:
        raise invalid("The file is as it is now.")
    return _copy(workspace, point, paths, by=by)


def removed(point: Point, paths: list[bytes]) -> list[bytes]:
    """Return those of the paths that are not there at the point, so that `file` deletes them."""
    return [path for path in paths if not _is_there(point, path)]


def _is_there(point: Point, path: bytes) -> bool:
    try:
        history.read_file(point.workspace, point.at, path, 1)
    except Problem as problem:
        return problem.status != 404  # else it is a folder, a link or a larger file
    return True


def _copy(workspace, point: Point, paths: list[bytes], *, by: Actor) -> Operation:
    """Make the paths what they are at another workspace's point: written, or deleted if they are not there."""
    contents = {path: _content_at(point, path) for path in paths}
    lifecycle.resume_for_use(workspace, by=by)
    lifecycle.wait_until_ready(workspace)
    operation = _saved(workspace, by=by, label=f"before taking a file of {point.workspace.key}")
    for path, content in contents.items():
        if content is not None:
            file_writes.write_file(workspace, path, content, by=by)
        elif _content_at(Point(workspace, history.LIVE), path) is not None:
            file_writes.delete_file(workspace, path, by=by)
        about = {"from": point.workspace.key, "at": point.at}
        lifecycle.record(workspace, by, "file.taken", history.path_fields("path", path) | about)
    return operation


def _content_at(point: Point, path: bytes) -> bytes | None:
    """Return a file's bytes, None if there is no such file. Problem 409 for a folder or link, 413 for a large file."""
    try:
        return history.read_file(point.workspace, point.at, path, MAX_COPIED)
    except Problem as problem:
        if problem.status != 404:
            raise
        return None


def hunk(workspace, point: Point, path: bytes, index: int, seen: str, *, by: Actor):
    """Revert one hunk of a live text file to the point's lines; return the operation of the safety snapshot.

    `seen`: digest of the content that the person saw. Problem 409 if the file has changed since.
    """
    lifecycle.resume_for_use(workspace, by=by)
    lifecycle.wait_until_ready(workspace)
    limit = history.MAX_SHOWN
    old = history.read_file(point.workspace, point.at, path, limit)
    live = history.read_file(workspace, history.LIVE, path, limit)
    if digest_of(live) != seen:
        raise conflict("The file has changed since you looked; nothing was restored.")
    found = store_text.text_diff(old, live, max_bytes=limit).hunks
    if not found:
        raise invalid("Parts of this file can't be reverted; restore the whole file.")
    if not 0 <= index < len(found):
        raise not_found("part of this change")
    operation = _saved(workspace, by=by, label="before reverting part of a file")
    file_writes.write_file(workspace, path, without(live, found[index]), by=by)
    is_own = point.workspace.pk == workspace.pk
    about = {"snapshot": point.at} if is_own else {"from": point.workspace.key, "at": point.at}
    lifecycle.record(workspace, by, "file.hunk_reverted", history.path_fields("path", path) | about)
    return operation


def _saved(workspace, *, by: Actor, label: str) -> Operation:
    operation = operations.wait(lifecycle.snapshot(workspace, by=by, kind="safety", label=label), 60)
    if not operations.is_over(operation) or not operation.outcome["ok"]:
        raise unavailable("The current files could not be saved first, so nothing was restored.")
    return operation


def without(live: bytes, part: store_text.Hunk) -> bytes:
    """Return the live text with one hunk reverted."""
    lines = split_lines(live)
    before = [line for line in part.lines if line.origin in " -"]
    restored = [line.content for line in before]
    # A hunk that adds to an empty range names the line before it.
    start = part.new_start - 1 if part.new_lines else part.new_start
    return b"".join([*lines[:start], *restored, *lines[start + part.new_lines :]])

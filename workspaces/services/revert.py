"""Revert a part of the changes: a file, or one hunk of it, after a safety snapshot of the current files."""

import hashlib

from dashboard.models import Actor
from dashboard.problems import conflict, invalid, not_found, unavailable
from workspaces import history, lifecycle, operations
from workspaces.models import Operation
from workspaces.store import text as store_text


def digest_of(content: bytes) -> str:
    """Return a digest of the content that a person saw, so that no other content is overwritten."""
    return hashlib.sha256(content).hexdigest()


def file(workspace, number: int, paths: list[bytes], *, by: Actor) -> Operation:
    """Restore one file from a snapshot; `paths` are its current path and, if it was renamed, its old one."""
    if not paths or not all(paths):
        raise invalid("No file was given.")
    return lifecycle.restore(workspace, number, by=by, paths=paths)


def hunk(workspace, number: int, path: bytes, index: int, seen: str, *, by: Actor):
    """Revert one hunk of a live text file to the snapshot's lines; return the operation of the safety snapshot.

    `seen`: digest of the content that the person saw. Problem 409 if the file has changed since.
    """
    lifecycle.resume_for_use(workspace, by=by)
    lifecycle.wait_until_ready(workspace)
    limit = store_text.MAX_BYTES
    old = history.read_file(workspace, number, path, limit)
    live = history.read_file(workspace, history.LIVE, path, limit)
    if digest_of(live) != seen:
        raise conflict("The file has changed since you looked; nothing was restored.")
    found = store_text.text_diff(old, live).hunks
    if not found:
        raise invalid("Parts of this file can't be reverted; restore the whole file.")
    if not 0 <= index < len(found):
        raise not_found("part of this change")
    operation = operations.wait(
        lifecycle.snapshot(workspace, by=by, kind="safety", label="before reverting part of a file"), 60
    )
    if not operations.is_over(operation) or not operation.outcome["ok"]:
        raise unavailable("The current files could not be saved first, so nothing was restored.")
    history.write_file(workspace, path, without(live, found[index]), by=by)
    lifecycle.record(workspace, by, "file.hunk_reverted", history.named("path", path) | {"snapshot": number})
    return operation


def without(live: bytes, part: store_text.Hunk) -> bytes:
    """Return the live text with one hunk reverted."""
    lines = _split_at_newlines(live)
    before = [line for line in part.lines if line.origin in " -"]
    restored = [line.content for line in before]
    # A hunk that adds to an empty range names the line before it.
    start = part.new_start - 1 if part.new_lines else part.new_start
    return b"".join([*lines[:start], *restored, *lines[start + part.new_lines :]])


def _split_at_newlines(text: bytes) -> list[bytes]:
    parts = text.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])

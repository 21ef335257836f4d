"""Parts of a change taken back: one file, or one hunk of it. What is there now is saved first, as with any restore."""

import hashlib

from dashboard.models import Actor
from dashboard.problems import conflict, invalid, not_found, unavailable
from workspaces import effects, history, lifecycle
from workspaces.models import Effect
from workspaces.store import text as store_text


def digest_of(content: bytes) -> str:
    """Names what somebody saw, so that nothing else is overwritten."""
    return hashlib.sha256(content).hexdigest()


def file(workspace, number: int, path: str, *, by: Actor) -> Effect:
    """Put one file back to a snapshot."""
    return lifecycle.restore(workspace, number, by=by, paths=[path])


def hunk(workspace, number: int, path: bytes, index: int, seen: str, *, by: Actor):
    """Put one hunk of a live text file back to a snapshot's lines. Problem 409 when the file is not what was seen."""
    limit = store_text.MAX_BYTES
    old = history.read_file(workspace, number, path, limit)
    live = history.read_file(workspace, history.LIVE, path, limit)
    if digest_of(live) != seen:
        raise conflict("The file has changed since you looked; nothing was put back.")
    found = store_text.text_diff(old, live).hunks
    if not found:
        raise invalid("This file has no lines to put back by themselves; put the whole file back.")
    if not 0 <= index < len(found):
        raise not_found("part of this change")
    effect = effects.wait(lifecycle.snapshot(workspace, by=by, kind="safety", label="before a part went back"), 60)
    if not effects.is_over(effect) or not effect.outcome["ok"]:
        raise unavailable("What is there now could not be saved first, so nothing was put back.")
    history.write_file(workspace, path, without(live, found[index]))
    lifecycle.record(workspace, by, "file.hunk_taken_back", history.named("path", path) | {"snapshot": number})
    return effect


def without(live: bytes, part: store_text.Hunk) -> bytes:
    """The live text with one hunk's lines as they were."""
    lines = _split_at_newlines(live)
    before = [line for line in part.lines if line.origin in " -"]
    restored = [line.content for line in before]
    # A hunk that adds to an empty range names the line before it.
    start = part.new_start - 1 if part.new_lines else part.new_start
    return b"".join([*lines[:start], *restored, *lines[start + part.new_lines :]])


def _split_at_newlines(text: bytes) -> list[bytes]:
    parts = text.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])

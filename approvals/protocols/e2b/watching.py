"""Watch a folder of a sandbox: its entries are compared with those of the look before.

A file that comes and goes between two looks is not seen, and a name that changes is one file removed and one created.
"""

import asyncio
import posixpath
import secrets
import threading
import time
from collections.abc import AsyncIterator

from approvals.protocols.e2b import entries
from approvals.protocols.e2b.answering import RECHECK_S, in_thread
from dashboard.problems import Problem, not_found, unavailable
from workspaces.models import Workspace

LOOK_S = 0.5  # between two looks of a stream
RESTS = 4  # a look that takes long is followed by a pause of at least so many times that
MOST_KEPT, MOST_OF_ONE = 500, 20  # watchers in this process, and of one caller
KEPT_S = 3600.0  # a watcher that nobody has asked for so long is dropped
DEPTH = 16  # levels of folders in a recursive watch

_kept: dict[str, "Watcher"] = {}
_lock = threading.Lock()


class Watcher:
    """A folder as it was at the last look. Problem 404 or 422 if there is no such folder now."""

    def __init__(self, workspace: Workspace, caller, folder: bytes, recursive: bool):
        self.workspace, self.caller, self.folder = workspace, caller, folder
        self.depth = DEPTH if recursive else 1
        self.root = entries.stat_of(workspace, folder)["path"]
        self.asked_at = time.monotonic()
        self._seen = self._look()

    def _look(self) -> dict[str, tuple]:
        """Return {name below the folder: (whether it is a file, time and size of its content, mode)}."""
        try:
            found = entries.below(self.workspace, self.folder, self.depth)
        except Problem as problem:
            if problem.status != 404 or not hasattr(self, "_seen"):
                raise
            found = []  # the folder is gone, and all that was in it
        return {posixpath.relpath(entry["path"], self.root): _state_of(entry) for entry in found}

    def news(self) -> list[dict]:
        """Return what has changed since the last look, as envd's events: removed, created, written, mode changed."""
        before, now = self._seen, self._look()
        self._seen, self.asked_at = now, time.monotonic()
        changed = [("EVENT_TYPE_REMOVE", name) for name in before if name not in now]
        for name, (is_file, content, mode) in now.items():
            old = before.get(name)
            if old is None:
                changed.append(("EVENT_TYPE_CREATE", name))
                changed += [("EVENT_TYPE_WRITE", name)] if is_file else []
            elif is_file and old[1] != content:
                changed.append(("EVENT_TYPE_WRITE", name))
            elif old[2] != mode:
                changed.append(("EVENT_TYPE_CHMOD", name))
        return [{"type": kind, "name": name} for kind, name in changed]


def _state_of(entry: dict) -> tuple[bool, tuple[str, str], int]:
    return entry["type"] == entries.TYPES["file"], (entry["modifiedTime"], entry["size"]), entry["mode"]


async def followed(watcher: Watcher) -> AsyncIterator[dict | None]:
    """Yield the events of a watcher as they are seen, and None now and then when there are none."""
    quiet_since, took = time.monotonic(), 0.0
    while True:
        await asyncio.sleep(max(LOOK_S, RESTS * took))
        began = time.monotonic()
        found = await in_thread(watcher.news)  # not on a thread for queries: it asks for each folder
        took = time.monotonic() - began
        for event in found:
            quiet_since = time.monotonic()
            yield event
        if time.monotonic() - quiet_since > RECHECK_S:
            quiet_since = time.monotonic()
            yield None


def keep(watcher: Watcher) -> str:
    """Keep a watcher in this process; return its id. Problem 429 if its caller has too many, 503 if all have."""
    with _lock:
        for known in [known for known, one in _kept.items() if time.monotonic() - one.asked_at > KEPT_S]:
            del _kept[known]
        if sum(one.caller.actor == watcher.caller.actor for one in _kept.values()) >= MOST_OF_ONE:
            raise Problem(429, f"This token watches {MOST_OF_ONE} folders already. Stop one first.")
        if len(_kept) >= MOST_KEPT:
            raise unavailable("Too many folders are watched. Stop one first.")
        made = secrets.token_hex(8)
        _kept[made] = watcher
    return made


def find(watcher_id, workspace: Workspace, caller) -> Watcher:
    """Return a watcher of this sandbox that the caller keeps. Problem 404 also after a restart of the desk."""
    watcher = _kept.get(watcher_id) if isinstance(watcher_id, str) else None
    if watcher is None or (watcher.workspace.pk, watcher.caller.actor) != (workspace.pk, caller.actor):
        raise not_found("watcher")
    return watcher


def drop(watcher_id, workspace: Workspace, caller):
    """Keep a watcher no longer. Problem 404."""
    find(watcher_id, workspace, caller)
    with _lock:
        _kept.pop(watcher_id, None)

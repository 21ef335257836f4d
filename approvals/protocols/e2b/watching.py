"""Watch a folder of a sandbox: its entries are compared with those of the look before.

A file that comes and goes between two looks is not seen, and a name that changes is one file removed and one created.
"""

import asyncio
import posixpath
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

from approvals.evaluation.calls import root_of
from approvals.models import FolderWatch
from approvals.protocols.e2b import entries
from approvals.protocols.e2b.answering import RECHECK_S, in_thread
from dashboard.database import clock
from dashboard.models import Team
from dashboard.problems import Problem, invalid, not_found, unavailable
from dashboard.web.pages import as_uuid
from workspaces.models import Workspace

LOOK_S = 0.5  # between two looks of a stream
RESTS = 4  # a look that takes long is followed by a pause of at least so many times that
MOST_KEPT, MOST_OF_ONE = 500, 20  # watches of all callers, and of one token
KEPT_FOR = timedelta(hours=1)  # a watch that nobody has asked for so long is dropped
NOTED_EVERY = timedelta(minutes=1)  # how often it is noted that somebody asks, while nothing changes
TRIES = 5  # of a look that another one overtakes
DEPTH = 16  # levels of folders in a recursive watch

Seen = dict[str, list]  # {name below the folder: [whether it is a file, [time, size] of its content, mode]}


@dataclass(frozen=True)
class Folder:
    """A folder of a sandbox to watch, alone or with all that is in it."""

    workspace: Workspace
    path: bytes
    recursive: bool

    def look(self) -> Seen:
        """Return what is there now. Problem 404 or 422 if it is no folder."""
        root = posixpath.join(root_of(self.workspace), self.path.decode("utf-8", "replace"))
        found = entries.below(self.workspace, self.path, DEPTH if self.recursive else 1)
        return {posixpath.relpath(entry["path"], root): _state_of(entry) for entry in found}

    def look_again(self) -> Seen:
        """Return what is there now: nothing once the folder is gone, with all that was in it."""
        try:
            return self.look()
        except Problem as problem:
            if problem.status != 404:
                raise
            return {}


def _state_of(entry: dict) -> list:
    return [entry["type"] == entries.TYPES["file"], [entry["modifiedTime"], entry["size"]], entry["mode"]]


def changes(before: Seen, now: Seen) -> list[dict]:
    """Return what differs between two looks, as envd's events: removed, created, written, mode changed."""
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


async def followed(folder: Folder, seen: Seen) -> AsyncIterator[dict | None]:
    """Yield the events of a folder as they are seen, and None now and then when there are none."""
    quiet_since, took = time.monotonic(), 0.0
    while True:
        await asyncio.sleep(max(LOOK_S, RESTS * took))
        began = time.monotonic()
        now = await in_thread(folder.look_again)  # not on a thread for queries: it asks for each folder
        took = time.monotonic() - began
        for event in changes(seen, now):
            quiet_since = time.monotonic()
            yield event
        seen = now
        if time.monotonic() - quiet_since > RECHECK_S:
            quiet_since = time.monotonic()
            yield None


def keep(folder: Folder, caller) -> str:
    """Keep a watch of a folder; return its id. Problem 404, 422, 429 if its token has too many, 503 if all have."""
    try:
        path = folder.path.decode()
    except UnicodeDecodeError:
        raise invalid("The path is no UTF-8.") from None
    seen, now = folder.look(), clock.now()
    with Team.objects.turn(folder.workspace.team_id):
        FolderWatch.objects.filter(asked_at__lt=now - KEPT_FOR).delete()
        if FolderWatch.objects.filter(token=caller.token).count() >= MOST_OF_ONE:
            raise Problem(429, f"This token watches {MOST_OF_ONE} folders already. Stop one first.")
        if FolderWatch.objects.count() >= MOST_KEPT:
            raise unavailable("Too many folders are watched. Stop one first.")
        about = {"workspace": folder.workspace, "token": caller.token, "folder": path, "recursive": folder.recursive}
        return str(FolderWatch.objects.create(**about, seen=seen, asked_at=now).pk)


def news(watcher_id, workspace: Workspace, caller) -> list[dict]:
    """Return what has changed since this watch was asked for last. Problem 404; 503 if others take its changes."""
    for _ in range(TRIES):
        watch = _find(watcher_id, workspace, caller)
        now, at = Folder(workspace, watch.folder.encode(), watch.recursive).look_again(), clock.now()
        found = changes(watch.seen, now)
        if not found and at - watch.asked_at < NOTED_EVERY:
            return []
        as_read = FolderWatch.objects.filter(pk=watch.pk, looks=watch.looks)
        if as_read.update(seen=now, looks=watch.looks + 1, asked_at=at):
            return found
    raise unavailable("Other calls ask for the changes of this folder at the same time. Ask again.")


def drop(watcher_id, workspace: Workspace, caller):
    """Keep a watch no longer. Problem 404."""
    _find(watcher_id, workspace, caller).delete()


def _find(watcher_id, workspace: Workspace, caller) -> FolderWatch:
    """Return a watch of this sandbox that the caller's token keeps. Problem 404."""
    pk = as_uuid(watcher_id) if isinstance(watcher_id, str) else None
    found = FolderWatch.objects.filter(pk=pk, workspace=workspace, token=caller.token).first() if pk else None
    if found is None:
        raise not_found("watcher")
    return found

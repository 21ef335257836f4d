"""Watch the files of workspaces that are up, so that their snapshots look only at what may have changed.

A tree is watched from the first snapshot of a Run until the Run ends: by this process, or in a guest or a pod by the
server of its files. What is watched, and why not, stands in `Workspace.watching` for the web, which is another process.
"""

import threading

from django.conf import settings

from workspaces import lifecycle
from workspaces.models import Run, Workspace
from workspaces.services.watching import SWITCHED_OFF
from workspaces.store.guest.watched import GuestWatched
from workspaces.store.watch import Watched

PROVEN = frozenset({"end", "found", "kept", "setup", "fork", "restored"})  # kinds of snapshots that walk everything

_watches: dict = {}  # of this process, by the id of the workspace
_lock = threading.Lock()


def of(workspace) -> Watched | None:
    """Return the watch of a workspace's files; None if it is not up, or if watching has missed something once."""
    if workspace.watch_alarms:
        return None
    if not Run.objects.filter(workspace=workspace.pk, ended_at=None).exists():
        return None
    way = GuestWatched if workspace.environment.capabilities.files_need_run else Watched
    with _lock:
        off = "" if settings.HANDRAIL_WATCH else SWITCHED_OFF
        return _watches.setdefault(workspace.pk, way(off=off))


def is_watched(workspace_id) -> bool:
    """Return whether a snapshot of it looks only at what may have changed."""
    watched = _watches.get(workspace_id)
    return watched is not None and watched.knows()


def drop(workspace):
    """Stop watching: the Run has ended."""
    with _lock:
        watched = _watches.pop(workspace.pk, None)
    if watched is not None:
        watched.close()
        Workspace.objects.filter(pk=workspace.pk).update(watching={})


def forget_earlier(runner):
    """Clear what an earlier process of a runner noted: its watches ended with it."""
    Workspace.objects.filter(runner=runner).exclude(watching={}).update(watching={})


def note(workspace, watched: Watched | None, by):
    """Save how it is watched, and an alarm: a walk found what the watch had missed, which is off from then on."""
    if watched is None:
        return
    now = {"how": watched.how, "why": watched.why}
    if workspace.watching != now:
        alarms = workspace.watch_alarms + watched.alarms
        Workspace.objects.filter(pk=workspace.pk).update(watching=now, watch_alarms=alarms)
        workspace.watching, workspace.watch_alarms = now, alarms
        if watched.alarms:
            lifecycle.record(workspace, by, "workspace.watch_alarm", {"why": watched.why})
            with _lock:
                _watches.pop(workspace.pk, None)

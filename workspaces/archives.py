"""Snapshots as archives that are ready to be fetched: written by the runner with progress, kept for an hour."""

import os
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from dashboard.keys import make_private
from dashboard.models import Actor
from workspaces import effects, history, lifecycle, places
from workspaces.models import Effect, Snapshot

KEPT_SECONDS = 3600
KIND = f"{lifecycle.KINDS}.archive"
_PIECE = 1024 * 1024


def folder_of(workspace_id) -> Path:
    return settings.HANDRAIL_HOME / "archives" / str(workspace_id)


def _path(snapshot: Snapshot) -> Path:
    return folder_of(snapshot.workspace_id) / f"{snapshot.pk}.tar.zst"


def ask(snapshot: Snapshot, *, by: Actor) -> Effect:
    """Have the runner write it; the effect under way, if somebody has asked already."""
    for effect in Effect.objects.open().filter(workspace=snapshot.workspace, kind=KIND, cancelled_at=None):
        if effect.args["number"] == snapshot.number:
            return effect
    return effects.submit(KIND, workspace=snapshot.workspace, by=by, args={"number": snapshot.number})


def write(snapshot: Snapshot, watch: dict) -> int:
    """Write it and return its size; as a whole or not at all. `watch` as of Store.archive."""
    path = _path(snapshot)
    make_private(path.parent)
    fresh = path.with_suffix(f".{os.urandom(8).hex()}")
    try:
        with open(fresh, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
            history.store_of(snapshot.workspace).archive(snapshot.tree_hex, out, **watch)
            out.flush()
            os.fsync(out.fileno())  # whoever finds it takes it for whole
        fresh.rename(path)
    finally:
        fresh.unlink(missing_ok=True)
    return path.stat().st_size


def read(snapshot: Snapshot) -> Iterator[bytes]:
    """The archive in pieces: the one that is ready on this host, else written while it is read."""
    try:
        file = open(_path(snapshot), "rb")  # noqa: SIM115  # closed by who reads it to the end, or leaves
    except FileNotFoundError:
        return history.archive(snapshot)
    return _pieces(file)


def _pieces(file) -> Iterator[bytes]:
    with file:
        while piece := file.read(_PIECE):
            yield piece


def sweep():
    """Drop those whose hour is over, and what was cut off in the middle."""
    places.drop_older(settings.HANDRAIL_HOME / "archives", KEPT_SECONDS)

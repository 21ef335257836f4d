"""Purge a value: delete the chosen snapshots, then take it out of rows, recordings and waiting files.

The caller frees the store afterwards (`workspaces.runner.operations.scrub_purge`), and writes the receipt.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from django.db import connection, transaction

from dashboard.models import Actor
from workspaces import lifecycle
from workspaces.models import Snapshot, Workspace
from workspaces.services import archives, source_trees
from workspaces.services.retention.holds import lock
from workspaces.services.scrub import downloads, programs, rows, stored
from workspaces.services.scrub.places import Place
from workspaces.services.scrub.search import NOT_SEARCHED, Tick, unread
from workspaces.services.scrub.value import Wanted
from workspaces.store import StoreError

NOT_CONFIRMED = "it was not among the snapshots that were confirmed"


@dataclass
class Purged:
    """What a purge removed, what is still there, and what it didn't look at."""

    removed: list[Place] = field(default_factory=list)
    kept: list[Place] = field(default_factory=list)
    not_searched: list[str] = field(default_factory=lambda: list(NOT_SEARCHED))
    trees: list[str] = field(default_factory=list)  # of the deleted snapshots
    contents: set[bytes] = field(default_factory=set)  # of the store, that hold the value
    freed: dict = field(default_factory=dict)  # what the collection says

    @property
    def total(self) -> int:
        return len(self.removed) + len(self.kept)

    def add(self, place: Place):
        (self.kept if place.why_kept else self.removed).append(place)


def purge(
    team,
    wanted: Wanted,
    *,
    snapshots: Iterable[str],
    past_holds: bool,
    by: Actor,
    tick: Tick = lambda step, found: None,
) -> Purged:
    """Remove the value wherever that is allowed. `snapshots`: ids of those that may be deleted."""
    done = Purged()
    overwrite_deleted()
    _purge_snapshots(team, wanted, set(snapshots), past_holds, by, tick, done)
    steps = {"rows": rows.purge, "programs": programs.purge, "downloads": downloads.purge}
    for step, purge_step in steps.items():
        for place in purge_step(team, wanted, lambda step=step: tick(step, done.total)):
            done.add(place)
    for place in rows.find_encrypted(team, wanted):
        done.add(place)
    return done


def _purge_snapshots(team, wanted: Wanted, chosen: set[str], past_holds: bool, by: Actor, tick: Tick, done: Purged):
    try:
        trees = stored.trees_of(team, wanted, lambda: tick("snapshots", done.total))
        if trees is None:
            return
        for snapshot in list(stored.rows(team)):
            if count := trees.count(snapshot.tree):
                place = stored.place_of(snapshot, trees, count, "")
                why = _delete(snapshot, chosen, past_holds, by)
                done.add(Place(**(place.as_json() | {"paths": place.paths, "why_kept": why})))
                done.trees += [] if why else [snapshot.tree_hex]
        for tree, row in source_trees.forget(team, trees.count).items():
            done.add(stored.place_of_source(row, trees, tree))
            done.trees.append(tree)
        for place in stored.others(team, trees):
            done.add(place)
        done.contents = trees.contents()
        done.not_searched += unread(trees)
    except StoreError as error:
        done.not_searched.append(f"snapshots: {error}")


def _delete(snapshot: Snapshot, chosen: set[str], past_holds: bool, by: Actor) -> str:
    """Delete a snapshot for good, with an event; return why it stays, "" if it is gone."""
    if str(snapshot.pk) not in chosen:
        return NOT_CONFIRMED
    workspace = snapshot.workspace
    with transaction.atomic():
        lock(workspace.team_id)
        if why := stored.Kept(workspace.team_id).why(snapshot, past_holds=past_holds):
            return why
        was_first = Workspace.objects.filter(pk=workspace.pk, baseline=snapshot.pk).exists()
        data = {"number": snapshot.number, "why": "a value was purged"}
        lifecycle.record(workspace, by, "snapshot.purged", data, subject=snapshot)
        Snapshot.objects.filter(pk=snapshot.pk).delete()
        if was_first:  # what is different since the beginning is told from the oldest one that is left
            oldest = Snapshot.objects.kept().filter(workspace=workspace.pk).order_by("number").first()
            Workspace.objects.filter(pk=workspace.pk).update(baseline=oldest)
    archives.forget(workspace.pk, snapshot.pk)
    return ""


def overwrite_deleted():
    """Have SQLite overwrite what this connection deletes with zeros."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA secure_delete = ON")


def flush_database() -> str:
    """Write SQLite's log into its file and empty it; return what is left to say about the database's own files."""
    if connection.vendor != "sqlite":
        return "the database's own files, until VACUUM reuses their pages and old write-ahead logs are gone"
    if connection.in_atomic_block:
        return "the write-ahead log of the database, until it is next emptied"
    with connection.cursor() as cursor:
        busy = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    return "the write-ahead log of the database, until it is next emptied" if busy else ""

"""Looking after a team's store: checking it, freeing what no snapshot needs, mending it. In the queue, and on a page.

Each kind of work has one row for each team: the round that is under way, or the last one with what it found.
"""

import threading
import time
from contextlib import suppress
from dataclasses import asdict
from datetime import timedelta
from functools import partial

from django.db import transaction
from django.db.models import Q
from django_q.tasks import async_task

from dashboard import clock
from dashboard.models import Actor, Event, Team
from dashboard.problems import Problem, conflict
from workspaces import places
from workspaces.models import Snapshot, Upkeep, Work, Workspace
from workspaces.store import Cancelled, Store, StoreError
from workspaces.store.progress import Watch
from workspaces.store.reindex import reindex

NOTED_EVERY = 0.5  # seconds between two notes of how far it is; each also sees whether somebody wants it to stop
LOST = timedelta(minutes=15)  # more than the queue gives any work: who has said nothing for so long has died
MOST = 50  # problems, and files of each, that are written down
STOPPED = "It was stopped as asked. Nothing was changed."


def ask(team, work: str, *, by: Actor, full: bool = False) -> Upkeep:
    """Have the queue do it as soon as it can; a conflict while it is under way."""
    with transaction.atomic():
        row = _fresh(team, work, by=by, full=full)
        Event.objects.record(team, actor=by, verb=f"store.{work}_asked", subject=team, data={"full": full})
        transaction.on_commit(partial(async_task, "workspaces.tasks.look_after", str(row.pk), row.round))
    return row


def _fresh(team, work: str, *, by: Actor, full: bool) -> Upkeep:
    now = clock.now()
    row, _ = Upkeep.objects.get_or_create(team=team, work=work, defaults={"asked_at": now, "ended_at": now})
    # The filter makes the first of two win.
    free = Q(ended_at__isnull=False) | Q(noted_at__lt=now - LOST)
    won = Upkeep.objects.filter(free, pk=row.pk, round=row.round).update(
        # What was found with every byte read is not mended because less was looked at.
        round=row.round + 1, full=full or (row.ok is False and row.full), by=asdict(by), asked_at=now, noted_at=now,
        started_at=None, ended_at=None, cancelled_at=None, progress={},
    )  # fmt: skip
    if not won:
        raise conflict("This is under way already.")
    row.refresh_from_db()
    return row


def stop(team, work: str, *, by: Actor) -> Upkeep:
    """Ask it to end; what it has not done by then it leaves as it was."""
    with transaction.atomic():
        rows = Upkeep.objects.filter(team=team, work=work, ended_at=None, cancelled_at=None)
        if not rows.update(cancelled_at=clock.now()):
            raise conflict("It is over, or was asked to stop already.")
        Event.objects.record(team, actor=by, verb=f"store.{work}_stopped", subject=team)
    return Upkeep.objects.get(team=team, work=work)


def is_lost(row: Upkeep) -> bool:
    """Whoever did it died over it."""
    return row.ended_at is None and row.noted_at < clock.now() - LOST


def in_turn(work: str, *, full: bool = False) -> list[Upkeep]:
    """One kind of work for each team that has a store, as the schedule wants it, one after the other."""
    done = []
    for team in Team.objects.all():
        if places.store_of(team.pk).exists():
            with suppress(Problem):  # somebody has asked for it, and it is under way
                done.append(carry_out(_fresh(team, work, by=Actor.system("queue"), full=full)))
    return done


def carry_out(row: Upkeep) -> Upkeep:
    """Do one round and write down how it ended."""
    mine = Upkeep.objects.filter(pk=row.pk, round=row.round, ended_at=None)
    mine.update(started_at=clock.now(), noted_at=clock.now())
    store, watch = places.store_of(row.team_id), _Noting(mine)
    try:
        outcome = {"ok": True} | _WORKS[row.work](row, store, watch) if store.exists() else {"ok": True, "empty": True}
    except Cancelled:
        outcome = {"ok": False, "cancelled": True, "reason": STOPPED}
    except (StoreError, OSError) as error:
        outcome = {"ok": False, "reason": f"It could not be done: {error}"}
    ok = outcome["ok"]
    if outcome.get("cancelled"):  # what the round before has found is still all that is known
        ok, outcome = row.ok, (row.outcome or {}) | outcome
    with transaction.atomic():
        ended = mine.update(ended_at=clock.now(), outcome=outcome, ok=ok)
        if ended and row.work == Work.CHECK and not outcome["ok"] and not outcome.get("cancelled"):
            problems = [f"{found['where']}: {found['what']}" for found in outcome.get("problems", [])]
            data = {"problems": problems or [outcome.get("reason", "")]}
            actor = Actor.system("check")
            Event.objects.record(row.team, actor=actor, verb="store.damaged", subject=row.team, data=data)
    row.refresh_from_db()
    return row


class _Noting(Watch):
    """Writes how far the work is into its row a few times a second, and sees there whether it shall go on."""

    def __init__(self, mine):
        super().__init__(cancel=threading.Event())
        self._mine, self._noted = mine, 0.0

    def tick(self, entries: int = 0, size: int = 0) -> None:
        self.entries += entries
        self.bytes += size
        if time.monotonic() - self._noted > NOTED_EVERY:
            self._noted = time.monotonic()
            how_far = {"done": self.entries, "bytes": self.bytes, "total_bytes": self.total_bytes}
            if not self._mine.filter(cancelled_at=None).update(progress=how_far, noted_at=clock.now()):
                self.cancel.set()
        self.check()

    def options(self) -> dict:
        """For the calls of a store, which count by themselves."""

        def report(progress):
            self.entries, self.bytes, self.total_bytes = progress.entries, progress.bytes, progress.total_bytes
            self.tick()

        return {"progress": report, "cancel": self.cancel}


# -- what is done --------------------------------------------------------------------------------------------------


def _check(row, path, watch) -> dict:
    found = Store.open(path).verify(full=row.full, **watch.options())
    problems = [problem for problem in found.problems if not problem.harmless]
    named = _snapshots_of(row.team_id) if problems else {}
    return {
        "ok": found.ok,
        "full": found.full,
        "objects": found.objects,
        "bytes": found.bytes,
        "count": len(problems),
        "problems": [_in_words(problem, named) for problem in problems[:MOST]],
    }


def _in_words(problem, named: dict[str, list]) -> dict:
    """A problem with the files that it hurts, by the names that people know: [workspace, snapshot, path]."""
    hurts = [
        [key, number, path.decode(errors="replace")]
        for tree, path in problem.hurts
        for key, number in named.get(tree, ())
    ]
    return {"where": problem.where, "what": problem.what, "count": len(hurts), "hurts": hurts[:MOST]}


def _snapshots_of(team_id) -> dict[str, list]:
    """For each tree the snapshots that hold it: (key of the workspace, number)."""
    found: dict[str, list] = {}
    for tree, key, number in Snapshot.objects.filter(workspace__team=team_id).values_list(
        "tree", "workspace__key", "number"
    ):
        found.setdefault(bytes(tree).hex(), []).append((key, number))
    return found


def _collect(row, path, watch) -> dict:
    """Free what no snapshot names any more, and weigh what is left."""
    since = time.time()
    rows = list(Snapshot.objects.filter(workspace__team=row.team_id).values_list("pk", "workspace", "tree"))
    store = Store.open(path)
    done = store.gc({bytes(tree).hex() for _, _, tree in rows}, since=since, **watch.options())
    by_workspace = store.alone(((str(owner), bytes(tree).hex()) for _, owner, tree in rows), **watch.options())
    by_snapshot = store.alone(((str(pk), bytes(tree).hex()) for pk, _, tree in rows), **watch.options())
    return {
        "freed": done.freed_bytes,
        "bytes": done.bytes,
        "workspaces": by_workspace,
        "snapshots": by_snapshot,
    }


def _repair(row, path, watch) -> dict:
    """Make head and index anew from what is whole, so that what is damaged is stored again by who still has it."""
    done = reindex(path, watch)
    held = set(_snapshots_of(row.team_id))
    store = Store.open(path)
    lost = [tree for tree in held if not store.catalog.holds(bytes.fromhex(tree))]
    return {"objects": done.objects, "dropped": done.dropped, "snapshots": len(held), "lost": len(lost)}


_WORKS = {Work.CHECK: _check, Work.COLLECT: _collect, Work.REPAIR: _repair}


# -- what it takes -------------------------------------------------------------------------------------------------


def weights(team) -> list[tuple[Workspace, int, int]]:
    """(workspace, its snapshots, bytes that go with it) as the last collection weighed them, heaviest first."""
    last = Upkeep.objects.filter(team=team, work=Work.COLLECT).first()
    weighed = (last.outcome or {}).get("workspaces", {}) if last else {}
    found = Workspace.objects.filter(pk__in=weighed).select_related("team")
    rows = [(one, one.snapshots.count(), weighed[str(one.pk)]) for one in found]
    return sorted(rows, key=lambda row: -row[2])


def weight_of(snapshot) -> int | None:
    """What deleting this one snapshot frees, as the last collection weighed it."""
    last = Upkeep.objects.filter(team=snapshot.workspace.team_id, work=Work.COLLECT).first()
    return (last.outcome or {}).get("snapshots", {}).get(str(snapshot.pk)) if last else None

"""Snapshots by kind. A rule moves them to the trash; the trash deletes them."""

from collections import defaultdict
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter

from workspaces.models import Snapshot
from workspaces.services.retention.layers.base import COUNTS, Item, Layer, Terms


class Snapshots(Layer):
    """Snapshots of some kinds. See `Scope.snapshots` for those that no rule deletes."""

    counts = COUNTS

    def __init__(self, name: str, kinds: tuple[str, ...], label: str, covers: str, default: Terms):
        self.name, self.kinds, self.label, self.covers, self.default = name, kinds, label, covers, default

    def due(self, scope):
        rows = [row for row in scope.snapshots if row.kind in self.kinds]
        for workspace, found in groupby(rows, key=attrgetter("workspace_id")):
            terms = scope.terms(self, scope.workspaces[workspace].environment)
            for row in expired(list(found), terms, scope.at):
                if not row.is_protected:
                    yield Item(
                        row.pk,
                        f"snapshot {row.number}",
                        row.created_at,
                        workspace,
                        scope.workspaces[workspace].key,
                        snapshot_id=row.pk,
                        group=(row.environment,),
                    )

    def delete(self, scope, items):
        by_environment = defaultdict(list)
        for item in items:
            by_environment[item.group[0]].append(item.pk)
        for environment, pks in by_environment.items():
            drop_at = scope.drop_date(environment)
            Snapshot.objects.kept().filter(pk__in=pks).update(trashed_at=scope.at, drop_at=drop_at)


def expired(rows: list, terms: Terms, at: datetime) -> list:
    """Return the rows that the terms do not keep; `rows` are of one workspace and layer, the newest first."""
    cutoff = terms.cutoff(at)
    if cutoff is None:
        return []
    kept = set(range(terms.newest))
    periods = ((terms.daily, _day), (terms.weekly, _week), (terms.monthly, _month))
    for count, period in periods:
        newest_of: dict[int, int] = {}
        for position, row in enumerate(rows):
            age = period(at) - period(row.created_at)
            if age < count:
                newest_of.setdefault(age, position)
        kept.update(newest_of.values())
    return [row for position, row in enumerate(rows) if position not in kept and row.created_at < cutoff]


def _day(at: datetime) -> int:
    return at.toordinal()


def _week(at: datetime) -> int:
    return (at.date() - timedelta(days=at.weekday())).toordinal() // 7


def _month(at: datetime) -> int:
    return at.year * 12 + at.month


SNAPSHOT_LAYERS = [
    Snapshots(
        "snapshots-setup",
        ("setup",),
        "Snapshots after setup",
        "Taken when a workspace was set up or built again. The first and the current one of a workspace always stay.",
        Terms(365, newest=3),
    ),
    Snapshots(
        "snapshots-action",
        ("action", "asked"),
        "Snapshots before actions",
        "Taken when an agent asked for something, and before what it was allowed to do. What a person was shown for a "
        "decision stays with the decision.",
        Terms(90, newest=20, weekly=26, monthly=12),
    ),
    Snapshots(
        "snapshots-end",
        ("end",),
        "Snapshots at the end of a run",
        "Taken when a workspace was paused or stopped.",
        Terms(90, newest=20, monthly=12),
    ),
    Snapshots(
        "snapshots-periodic",
        ("periodic",),
        "Snapshots by time",
        "Taken while a workspace was in use.",
        Terms(30, newest=20, daily=30, weekly=12),
    ),
    Snapshots(
        "snapshots-safety",
        ("safety", "boundary", "restored", "revision", "found", "kept"),
        "Safety snapshots",
        "Taken before a restore, an update or more access, and of files that were found changed.",
        Terms(90, newest=10),
    ),
    Snapshots(
        "snapshots-other",
        ("manual", "fork"),
        "Other snapshots",
        "Taken on request without a label, and of forks. One that a person gave a label always stays.",
        Terms(90, newest=20, monthly=12),
    ),
]

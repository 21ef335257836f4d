"""A simulated year of a busy team, and a model of retention's rules that shares no code with them.

The world makes rows (and, with a store, real trees) day by day from a seed. The model is told the same, and says after
each sweep which snapshots must be kept, in the trash or gone. Time is an argument: nothing here waits.
"""

import hashlib
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from workspaces.models import Environment, Hold, RetentionRule, Snapshot, State, Workspace

START = datetime(2025, 1, 1, 3, tzinfo=UTC)
KINDS = ("action", "end", "periodic", "safety", "manual")
LAYER_OF = {
    "setup": "snapshots-setup",
    "action": "snapshots-action",
    "end": "snapshots-end",
    "periodic": "snapshots-periodic",
    "safety": "snapshots-safety",
    "manual": "snapshots-other",
}
# layer: (days, newest, daily, weekly, monthly), for the whole team and for one environment. The defaults are not used.
RULES = {
    ("", "snapshots-setup"): (30, 1, 0, 0, 0),
    ("", "snapshots-action"): (20, 5, 0, 4, 3),
    ("", "snapshots-end"): (10, 2, 0, 0, 6),
    ("", "snapshots-periodic"): (3, 0, 14, 0, 0),
    ("", "snapshots-safety"): (7, 1, 0, 0, 0),
    ("", "snapshots-other"): (30, 0, 0, 8, 0),
    ("", "trash"): (14, 0, 0, 0, 0),
    ("", "workspaces"): (None, 0, 0, 0, 0),
    ("", "home"): (None, 0, 0, 0, 0),
    ("careful", "snapshots-action"): (None, 0, 0, 0, 0),
    ("careful", "snapshots-end"): (60, 0, 0, 0, 0),
    ("careful", "trash"): (40, 0, 0, 0, 0),
}


@dataclass
class Known:
    """A snapshot as the model knows it."""

    workspace: str
    environment: str
    number: int
    kind: str
    at: datetime
    is_safe: bool  # pinned, or with a person's label
    drop_at: datetime | None = None  # in the trash until then
    is_gone: bool = False


@dataclass
class Model:
    """What must be true of snapshots, by a plain reading of docs/retention.md."""

    snapshots: list[Known] = field(default_factory=list)
    holds: list[tuple[str, int | None, datetime, datetime]] = field(default_factory=list)

    def sweep(self, at: datetime):
        """Do what a sweep at that time has to do."""
        by_workspace: dict[str, list[Known]] = {}
        for one in self.snapshots:
            if not one.is_gone:
                by_workspace.setdefault(one.workspace, []).append(one)
        for mine in by_workspace.values():
            for one in self._due(mine, at):
                one.drop_at = at + timedelta(days=self._rule(one.environment, "trash")[0])
        for one in self.snapshots:
            over = one.drop_at is not None and one.drop_at <= at
            one.is_gone = one.is_gone or (over and not self._is_held(one, at))

    def _due(self, mine: list[Known], at: datetime) -> list[Known]:
        kept = [one for one in mine if one.drop_at is None]
        always = {1, max(one.number for one in mine)}
        return [
            one
            for one in kept
            if not one.is_safe
            and one.number not in always
            and not self._is_held(one, at)
            and self._is_too_old(one, [other for other in kept if other.kind == one.kind], at)
        ]

    def _is_too_old(self, one: Known, alike: list[Known], at: datetime) -> bool:
        days, newest, daily, weekly, monthly = self._rule(one.environment, LAYER_OF[one.kind])
        if days is None or (at - one.at).total_seconds() <= days * 86400:
            return False
        later = [other for other in alike if other.number > one.number]
        if len(later) < newest:
            return False
        today, day = at.date(), one.at.date()
        last_of_day = not any(other.at.date() == day for other in later)
        last_of_week = not any(other.at.isocalendar()[:2] == one.at.isocalendar()[:2] for other in later)
        last_of_month = not any((other.at.year, other.at.month) == (day.year, day.month) for other in later)
        mondays = [when - timedelta(days=when.isoweekday() - 1) for when in (today, day)]
        weeks, months = (mondays[0] - mondays[1]).days // 7, (today.year - day.year) * 12 + today.month - day.month
        saved = [
            last_of_day and (today - day).days < daily,
            last_of_week and weeks < weekly,
            last_of_month and months < monthly,
        ]
        return not any(saved)

    def _rule(self, environment: str, layer: str) -> tuple:
        return RULES.get((environment, layer)) or RULES["", layer]

    def _is_held(self, one: Known, at: datetime) -> bool:
        return any(
            workspace == one.workspace and number in (None, one.number) and since <= at < until
            for workspace, number, since, until in self.holds
        )

    def kept(self) -> set[tuple[str, int]]:
        return {(one.workspace, one.number) for one in self.snapshots if not one.is_gone and one.drop_at is None}

    def in_trash(self) -> set[tuple[str, int]]:
        return {(one.workspace, one.number) for one in self.snapshots if not one.is_gone and one.drop_at is not None}


class World:
    """The team's rows, made day by day, and the model that is told of them."""

    def __init__(self, team, *, workspaces: int, a_day: float, seed: int, tree_of=None):
        self.team, self.random, self.model = team, random.Random(seed), Model()
        self.a_day, self.tree_of = a_day, tree_of or _digest
        for (environment, layer), (days, *counts) in RULES.items():
            columns = dict(zip(("keep_newest", "keep_daily", "keep_weekly", "keep_monthly"), counts, strict=True))
            RetentionRule.objects.create(team=team, environment=environment, layer=layer, days=days, **columns)
        places = [Environment.objects.create(team=team, name=name) for name in ("plain", "careful")]
        self.places = [
            Workspace.objects.create(
                team=team,
                key=f"w{number}",
                environment=places[number % 3 == 0],
                state=State.READY,
                uid=500_000 + number,
            )
            for number in range(workspaces)
        ]

    def day(self, number: int):
        """Make what happens on one day."""
        begins = START + timedelta(days=number)
        times = sorted(self.random.uniform(0, 86_399) for _ in range(self._poisson()))
        rows = [self._snapshot(self.random.choice(self.places), begins + timedelta(seconds=time)) for time in times]
        Snapshot.objects.bulk_create(rows)
        heads = {row.workspace_id: row for row in rows}
        for workspace in self.places:
            if (head := heads.get(workspace.pk)) is not None:
                first = {} if workspace.baseline_id else {"baseline": self._first(workspace, rows)}
                for name, value in ({"head": head} | first).items():
                    setattr(workspace, name, value)
                workspace.save(update_fields=["head", "baseline", "next_snapshot"])
        if self.random.random() < 0.05 and self.model.snapshots:
            self._hold(begins)

    def _poisson(self) -> int:
        whole = int(self.a_day)
        return whole + (self.random.random() < self.a_day - whole)

    def _first(self, workspace, rows):
        return next(row for row in rows if row.workspace_id == workspace.pk)

    def _snapshot(self, workspace, at: datetime) -> Snapshot:
        number = workspace.next_snapshot
        workspace.next_snapshot += 1
        kind = "setup" if number == 1 or self.random.random() < 0.02 else self.random.choice(KINDS)
        pinned = self.random.random() < 0.01
        label = "as I want it" if kind == "manual" and self.random.random() < 0.2 else ""
        by = self.random.choice([{"type": "agent"}, {"type": "person"}]) | {"id": "1", "label": "x"}
        environment = workspace.environment.name
        safe = pinned or (bool(label) and by["type"] == "person")
        self.model.snapshots.append(Known(workspace.key, environment, number, kind, at, safe))
        columns = {"entries": 1, "bytes": 1, "added_bytes": 1, "created_at": at, "pinned": pinned}
        return Snapshot(
            workspace=workspace,
            number=number,
            kind=kind,
            label=label,
            by=by,
            tree=self.tree_of(workspace.key, number),
            **columns,
        )

    def _hold(self, at: datetime):
        one = self.random.choice(self.model.snapshots)
        if one.is_gone:
            return
        workspace = next(place for place in self.places if place.key == one.workspace)
        whole, until = self.random.random() < 0.3, at + timedelta(days=self.random.choice([5, 30, 90]))
        self.model.holds.append((one.workspace, None if whole else one.number, at, until))
        snapshot = None if whole else Snapshot.objects.get(workspace=workspace, number=one.number)
        Hold.objects.create(
            team=self.team, workspace=workspace, snapshot=snapshot, reason="x", until=until, created_at=at
        )

    def differences(self) -> list[str]:
        """Return where the database is not as the model says; empty when all is right."""
        found = {name: set(rows.values_list("workspace__key", "number")) for name, rows in self._rows().items()}
        wanted = {"kept": self.model.kept(), "in_trash": self.model.in_trash()}
        return [
            f"{name}: {key} {number} {'is missing' if (key, number) in wanted[name] else 'should not be there'}"
            for name in wanted
            for key, number in sorted(found[name] ^ wanted[name])
        ]

    def _rows(self):
        mine = Snapshot.objects.filter(workspace__team=self.team)
        return {"kept": mine.kept(), "in_trash": mine.in_trash()}


def _digest(key: str, number: int) -> bytes:
    return hashlib.sha256(f"{key} {number}".encode()).digest()

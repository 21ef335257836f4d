"""The sweep: delete what is due, layer by layer, in batches that are each committed with their event.

It may stop or be killed at any point. What was committed is deleted and in the log; the next sweep finds the rest due.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from django.db import transaction

from dashboard.database import clock
from dashboard.models import Event, Team
from dashboard.workers.failpoints import failpoint
from workspaces.services.retention import warnings
from workspaces.services.retention.actor import SWEEPER
from workspaces.services.retention.holds import lock
from workspaces.services.retention.layers import Item, Layer, files, layers
from workspaces.services.retention.scope import Scope

BATCH = 200  # items of one transaction
MAX_NAMES = 50  # names of one layer in a report


@dataclass
class Report:
    """What a sweep of one team did, or would do: {layer: number}, and the first names of each layer."""

    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    names: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    held: int = 0
    compared: int = 0
    warned: int = 0

    def add(self, layer: Layer, items: list[Item]):
        self.counts[layer.name] += len(items)
        self.names[layer.name] += [full_name(item) for item in items[: MAX_NAMES - len(self.names[layer.name])]]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def as_json(self) -> dict:
        found = {"counts": dict(self.counts), "names": dict(self.names)}
        return found | {"held": self.held, "compared": self.compared, "warned": self.warned}


def full_name(item: Item) -> str:
    """Return the item's name with its workspace, for example "repo-task-1: snapshot 14"."""
    return f"{item.workspace}: {item.name}" if item.workspace and item.workspace not in item.name else item.name


class Due(NamedTuple):
    """What is due of a layer: what goes, how much more is held, and the snapshots that waiting actions keep."""

    items: list[Item]
    held: int
    compared: list[Item]


def due(scope: Scope, layer: Layer) -> Due:
    """Return what the layer deletes at the scope's time, and what it would but for holds and waiting actions."""
    items, held, compared = [], 0, []
    for item in layer.due(scope):
        if scope.held.on(item):
            held += 1
        elif scope.is_compared(item):
            compared.append(item)
        else:
            items.append(item)
    return Due(items, held, compared)


def _batches(items: list[Item]) -> Iterator[list[Item]]:
    for start in range(0, len(items), BATCH):
        yield items[start : start + BATCH]


def sweep_team(team, *, at: datetime | None = None, watch: Callable[[Report], None] | None = None) -> Report:
    """Warn about what goes soon, and delete what is due. `watch` hears of each batch, and may raise to stop."""
    report = Report()
    scope = Scope(team, at or clock.now())
    report.warned = warnings.warn(scope)
    _sweep_layers(scope, layers(), report, watch)
    return report


def sweep_hours():
    """Delete what is due on this host of the layers whose terms are hours. Each runner does so every few seconds."""
    for team in files.teams_with_old_files(clock.now()):
        _sweep_layers(Scope(team, clock.now()), [layer for layer in layers() if layer.in_hours], Report())


def _sweep_layers(scope: Scope, chosen: list[Layer], report: Report, watch=None):
    team = scope.team
    for layer in chosen:
        scope = Scope(team, scope.at, scope.rules)  # as the layers before have left it
        found = due(scope, layer)
        report.held += found.held
        report.compared += len(found.compared)
        for batch in _batches(found.items):
            if watch:
                watch(report)
            failpoint("sweep.batch")
            report.add(layer, _delete(scope, layer, batch))
            failpoint("retention.deleted")


def _delete(scope: Scope, layer: Layer, batch: list[Item]) -> list[Item]:
    """Delete one batch, without what has been held, or compared with, since; return what was deleted."""
    with transaction.atomic():
        lock(scope.team)
        fresh = Scope(scope.team, scope.at, scope.rules)
        items = [item for item in batch if not fresh.held.on(item) and not fresh.is_compared(item)]
        if items:
            layer.delete(scope, items)
            failpoint("sweep.commit")
            named = defaultdict(list)
            for item in items:
                named[item.workspace].append(item.name)
            data = {"layer": layer.label, "count": len(items), "items": dict(named)}
            Event.objects.record(scope.team, actor=SWEEPER, verb="retention.swept", subject=scope.team, data=data)
    return items


def dry_run(team, *, at: datetime | None = None) -> Report:
    """Return what a sweep would delete at that time; nothing is changed."""
    scope, report = Scope(team, at or clock.now()), Report()
    for layer in layers():
        found = due(scope, layer)
        report.held += found.held
        report.compared += len(found.compared)
        report.add(layer, found.items)
    return report


def sweep(*, at: datetime | None = None) -> dict:
    """Sweep all teams, here and now. Return {team: report}."""
    return {team: sweep_team(team, at=at) for team in Team.objects.order_by("slug")}

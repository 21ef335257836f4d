"""What rules, saved or not, delete at the next sweep: by name and date, and how much that frees."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from django.conf import settings

from dashboard.database import clock
from dashboard.problems import invalid
from dashboard.text.visible_text import plain_size
from workspaces.services import usage
from workspaces.services.retention import warnings
from workspaces.services.retention.layers import TRASH, Item, Layer, layers
from workspaces.services.retention.rules import Rules
from workspaces.services.retention.scope import Scope
from workspaces.services.retention.sweeping import due, full_name
from workspaces.store.gc import Forecast

SHOWN = 200  # items of one layer that a page names
AHEAD = timedelta(days=3660)  # the latest day of a preview


def next_sweep() -> datetime:
    """Return when the next sweep runs: the queue starts it once a day (dashboard.ops.tasks.AT_HOUR)."""
    return clock.next_at_hour(settings.HANDRAIL_SWEEP_HOUR)


def sweep_on(day: str) -> datetime:
    """Return when the sweep of a day (YYYY-MM-DD) runs, or the next one for today. Problem 422 for other days."""
    try:
        at = datetime.combine(date.fromisoformat(day), time(settings.HANDRAIL_SWEEP_HOUR), UTC)
    except ValueError:
        raise invalid("Give a day as YYYY-MM-DD.") from None
    now = clock.now()
    if not now.date() <= at.date() <= (now + AHEAD).date():
        raise invalid("Give a day from today on, at most ten years ahead.")
    return max(at, next_sweep())


@dataclass(frozen=True)
class Part:
    """What one layer deletes."""

    layer: Layer
    items: list[Item]
    held: int
    compared: list[Item]  # snapshots that stay while an action waits

    @property
    def by_workspace(self) -> list[tuple[str, list[Item]]]:
        """Return (workspace key, its items) by key, at most SHOWN items."""
        found: dict[str, list[Item]] = defaultdict(list)
        for item in self.items[:SHOWN]:
            found[item.workspace].append(item)
        return sorted(found.items())

    @property
    def not_shown(self) -> int:
        return max(0, len(self.items) - SHOWN)


@dataclass(frozen=True)
class Preview:
    """What the sweep at `at` deletes. `forecast` is None if the store cannot be read."""

    at: datetime
    parts: list[Part]
    to_warn: list[str]
    forecast: Forecast | None
    trash_days: int

    @property
    def deletes(self) -> bool:
        return bool(self.parts or self.to_warn)

    @property
    def held(self) -> int:
        return sum(part.held for part in self.parts)

    @property
    def compared(self) -> list[str]:
        """The names of snapshots that are due, and stay while an action waits whose card compares with them."""
        return [full_name(item) for part in self.parts for item in part.compared]

    @property
    def snapshots(self) -> int:
        return sum(item.snapshot_id is not None for part in self.parts for item in part.items)

    def sentences(self) -> Iterator[str]:
        """Yield what happens when, as sentences."""
        is_next = self.at <= next_sweep()
        when = f"{'at the next sweep' if is_next else 'until the sweep of that day'} ({clock.in_utc(self.at)})"
        gone = [part for part in self.parts if part.items]
        if gone:
            listed = ", ".join(f"{part.layer.label.lower()}: {len(part.items):,}" for part in gone)
            yield f"Deletes {when}: {listed}."
        elif not self.to_warn:
            yield f"Deletes nothing {when}."
        if self.snapshots:
            yield self._bytes()
        if self.to_warn:
            count = len(self.to_warn)
            yield f"Warns {when} about {count:,} unused workspace{'' if count == 1 else 's'}: {_some(self.to_warn)}."
        if self.held:
            yield f"{self.held:,} more {'is' if self.held == 1 else 'are'} due and held."
        if self.compared:
            yield f"{len(self.compared):,} kept: a waiting action compares with it ({_some(self.compared)})."

    def _bytes(self) -> str:
        moved = sum(i.snapshot_id is not None for part in self.parts if part.layer is not TRASH for i in part.items)
        days = f"{self.trash_days} day{'' if self.trash_days == 1 else 's'}"
        wait = f" {moved:,} of the snapshots first wait {days} in the trash." if moved and self.trash_days else ""
        if self.forecast is None:
            return f"The store can't be read, so it is not known how much space that frees.{wait}"
        freed, waiting, held = (plain_size(size) for size in self.forecast)
        later = (
            f" {waiting} more stay in packs that are more than half in use, until those are rewritten."
            if self.forecast.waiting
            else ""
        )
        if self.forecast.held:
            later += f" {held} more stay until an hour after the snapshots that hold them were taken."
        return f"Once these snapshots are deleted, the next collection frees about {freed}.{later}{wait}"

    def __str__(self):
        return " ".join(self.sentences())


def _some(names: list[str]) -> str:
    return ", ".join(names[:20]) + (f" and {len(names) - 20:,} more" if len(names) > 20 else "")


def preview(team, rules: Rules | None = None, *, at: datetime | None = None, measure: bool = True) -> Preview:
    """Return what the rules delete at the next sweep, or at `at`. `measure` (the bytes) reads the store's index."""
    scope = Scope(team, at or next_sweep(), rules, is_ahead=True)
    parts = [Part(layer, *due(scope, layer)) for layer in layers()]
    parts = [part for part in parts if any((part.items, part.held, part.compared))]
    going = {item.snapshot_id for part in parts for item in part.items if item.snapshot_id}
    return Preview(
        at=scope.at,
        parts=parts,
        to_warn=sorted(workspace.key for workspace in warnings.to_warn(scope)),
        forecast=usage.forecast(team.pk, going, scope.at) if going and measure else None,
        trash_days=scope.terms(TRASH).days,
    )

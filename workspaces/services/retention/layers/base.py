"""What a layer of retention is: a kind of kept things with a rule of its own. A new one is one small class."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workspaces.services.retention.scope import Scope

COUNTS = ("newest", "daily", "weekly", "monthly")


@dataclass(frozen=True)
class Terms:
    """How long things of a layer are kept. `days`: None is for ever. Each count keeps some that are older.

    Only a layer that is `in_hours` has `hours`, and no days.
    """

    days: int | None = None
    newest: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    hours: int | None = None

    def cutoff(self, at: datetime) -> datetime | None:
        """Return the time before which a thing is too old; None: nothing is."""
        if self.hours is not None:
            return at - timedelta(hours=self.hours)
        return None if self.days is None else at - timedelta(days=self.days)


@dataclass(frozen=True)
class Item:
    """One thing that is due: its primary key, its name for people, the workspace it is in, and its date."""

    pk: object
    name: str
    at: datetime  # when it was made or last used
    workspace_id: object = None
    workspace: str = ""  # key
    snapshot_id: object = None  # of an item that is a snapshot
    group: tuple = field(default=(), compare=False)  # for the layer alone


class Layer:
    """A kind of things that retention deletes. Subclasses say what is due at a time, and delete it.

    `delete` runs in the transaction that records the deletion. It may run again after a crash, so it must not fail for
    items that are gone. Work outside of the database is submitted to the runner as an operation.
    """

    name: str  # in rules and in the API; never changed
    label: str  # for people
    covers: str  # what it deletes and what stays, as sentences
    default: Terms = Terms()
    counts: tuple[str, ...] = ()  # the counts of Terms that apply
    by_environment = True  # whether an environment may have a rule of its own
    must_end = False  # whether `days` must be given
    in_hours = False  # whether the terms are hours, which must be given; each runner sweeps it on its host
    unit = "days"  # what the number counts

    def due(self, scope: "Scope") -> Iterable[Item]:
        """Return the items to delete at `scope.at`. Held ones need not be left out: the sweep does that."""
        raise NotImplementedError

    def delete(self, scope: "Scope", items: list[Item]):
        """Delete the items."""
        raise NotImplementedError

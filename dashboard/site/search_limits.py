"""Limits of a search, its results, and the cursor to continue it."""

import time
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from uuid import UUID

from django.db.models import Q, UUIDField

from dashboard.models import Agent
from dashboard.problems import invalid
from dashboard.web.lookup import Order, page_of

STRETCH = 5_000  # rows that are searched at once, the newest first


@dataclass(frozen=True)
class Position:
    """Where a search of recordings, files or messages stopped: a time, an id and, for files, a path."""

    at: datetime
    pk: str
    more: str = ""

    @property
    def key(self) -> tuple[datetime, str]:
        return self.at, self.pk

    def __str__(self):
        return "~".join((self.at.isoformat().replace("+00:00", "Z"), self.pk, self.more))

    @classmethod
    def read(cls, text: str) -> "Position":
        """Return the position that a cursor names. Problem 422 for any other text."""
        at, _, rest = text.partition("~")
        pk, found, more = rest.partition("~")
        try:
            moment = datetime.fromisoformat(at)
        except ValueError:
            found = ""
        if not found or not pk or moment.tzinfo is None:
            raise invalid("Invalid cursor.")
        return cls(moment, pk, more)


@dataclass(frozen=True)
class Limits:
    """What a search is limited to. `at` is a snapshot's number, with `workspace`; `seconds` are for each scan.

    `agents` and `people` are ids of those who did, asked or wrote what is found; None: anybody. `before` is the cursor
    that an earlier search of the same kind ended with.
    """

    most: int
    seconds: float
    since: datetime | None = None
    until: datetime | None = None
    workspace: str = ""
    at: int | None = None
    agents: tuple[UUID, ...] | None = None
    people: tuple[int, ...] | None = None
    before: str = ""

    def times(self, column: str) -> Q:
        found = Q(**{f"{column}__gte": self.since}) if self.since else Q()
        return found & (Q(**{f"{column}__lt": self.until}) if self.until else Q())

    def of(self, agent: str, person: str) -> Q:
        """Match rows by their columns for an agent and for a person."""
        found = Q() if self.agents is None else Q(**{f"{agent}__in": self.agents})
        return found if self.people is None else found & Q(**{f"{person}__in": self.people})

    def made(self, by: str) -> Q:
        """Match rows by the JSON of the actor who asked for them."""
        return Q(*(Q(**{f"{by}__type": kind, f"{by}__id__in": ids}) for kind, ids in self._actors()))

    def actor(self) -> Q:
        """Match events by their actor."""
        return Q(*(Q(actor_type=kind, actor_id__in=ids) for kind, ids in self._actors()))

    def workspaces(self) -> Q:
        """Match workspaces that an agent created or may work in, and that a person created or owns."""
        found = Q()
        if self.agents is not None:
            bound = Agent.bound_workspaces.rel.through.objects.filter(agent__in=self.agents).values("workspace")
            found &= Q(created_by_agent__in=self.agents) | Q(pk__in=bound)
        if self.people is not None:
            found &= Q(created_by_user__in=self.people) | Q(owner__in=self.people)
        return found

    @cached_property
    def position(self) -> Position | None:
        return Position.read(self.before) if self.before else None

    def _actors(self):
        for kind, ids in (("agent", self.agents), ("person", self.people)):
            if ids is not None:
                yield kind, [str(pk) for pk in ids]


@dataclass(frozen=True)
class Hit:
    """One thing that was found: its line with the words, where it is, and a link to it."""

    title: str
    line: str
    url: str
    at: datetime
    where: str = ""


@dataclass
class Scan:
    """Rows or hits, and the cursor to go on from; "" at the end.

    Of recordings and files, `searched` of `total` were read in the time; rows were searched back to `back_to`, None if
    all were. `large` files and recordings were not searched, or not to their end, as they are too long; nor were
    `binary` files, as they are no text, nor recordings that are `elsewhere`, on another host.
    """

    hits: list = field(default_factory=list)
    cursor: str = ""
    searched: int = 0
    total: int = 0
    back_to: datetime | None = None
    large: int = 0
    binary: int = 0
    elsewhere: int = 0

    @property
    def is_cut(self) -> bool:
        return self.searched < self.total or self.back_to is not None

    @property
    def left_something_out(self) -> bool:
        return bool(self.large or self.binary or self.elsewhere)

    def closed(self, before: str) -> "Scan":
        """Drop the cursor of a scan that came to the end; one that began nothing goes on from where it was to begin."""
        self.cursor = (self.cursor or before) if self.searched < self.total else ""
        return self


def newest(rows, wanted: Q, order: Order, limits: Limits, *, walked=None) -> Scan:
    """Find the newest rows that match, STRETCH rows at a time, until there are enough or the time is over.

    `walked`: other rows to measure a stretch by, which a database counts sooner than `rows`, and of which those are.
    """
    scan, cursor, deadline = Scan(), limits.before, time.monotonic() + limits.seconds
    while True:
        edge = _edge(rows if walked is None else walked, cursor, order)
        stretch = rows if edge is None else rows.filter(**{f"{order.by}__gte": edge})
        page = page_of(stretch.filter(wanted), cursor, order=order, size=limits.most - len(scan.hits))
        scan.hits += page.rows
        if page.cursor or edge is None:
            scan.cursor = page.cursor or ""
            return scan
        cursor = scan.cursor = _cursor_after(edge, rows.model)
        if len(scan.hits) >= limits.most:
            return scan
        if time.monotonic() > deadline:
            scan.back_to = edge
            return scan


def _edge(rows, cursor: str, order: Order) -> datetime | None:
    """Return the time of the last row of the stretch that begins at the cursor; None if it is the last stretch."""
    if cursor:
        rows = rows.filter(**{f"{order.by}__lte": Position.read(f"{cursor}~").at})
    return rows.order_by(f"-{order.by}").values_list(order.by, flat=True)[STRETCH : STRETCH + 1].first()


def _cursor_after(edge: datetime, model) -> str:
    """Return the cursor after all rows of a time."""
    least = UUID(int=0) if isinstance(model._meta.pk, UUIDField) else 0
    return f"{edge.isoformat().replace('+00:00', 'Z')}~{least}"

"""Open workspaces of one repository that change the same files: which collide, who rebases, in which order to merge.

What is compared is what each changed since it began, as of its newest snapshot. Answers for the same trees are cached.
"""

import hashlib
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from django.core.cache import cache

from dashboard.problems import Problem
from workspaces import extensions
from workspaces.changes import stores
from workspaces.changes.comparisons import Changes, Point
from workspaces.changes.forks import DIFFERENT, compare_forks
from workspaces.models import PullRequest, State, Workspace
from workspaces.programs.checks import CheckState, checks_of
from workspaces.services.notes.lessons import repository_of
from workspaces.store import StoreError

KEPT_SECONDS = 24 * 3600
MAX_PLACES = 60  # open workspaces of a repository, those used last
MAX_PATHS = 5000  # changed paths of a workspace; with more it is left out
SHOWN = 5  # paths of a collision that a page names
MAX_PAIRS = 20  # in one answer
SECONDS = 1.5  # in which comparisons that nobody made yet are begun
OPEN = (State.READY, State.PAUSED, State.STOPPED)


@dataclass(frozen=True)
class Collision:
    """Two workspaces that change the same files. `first` is merged first, `then` rebases after that.

    `files`: paths that both changed differently; `lines`: those of them that git could not merge; `comparable`: whether
    a snapshot is known that both come from, so that they can be put side by side.
    """

    first: Workspace
    then: Workspace
    files: tuple[str, ...]
    lines: tuple[str, ...]
    comparable: bool = False

    @property
    def shown_files(self) -> list[str]:
        """The first of the paths, those with the same lines before the others."""
        ordered = sorted(self.files, key=lambda name: (name not in self.lines, name))
        return [shown(name) for name in ordered[:SHOWN]]

    @property
    def more_files(self) -> int:
        return max(0, len(self.files) - SHOWN)

    def is_of(self, workspace: Workspace) -> bool:
        return workspace.pk in (self.first.pk, self.then.pk)

    def other(self, workspace: Workspace) -> Workspace:
        return self.then if workspace.pk == self.first.pk else self.first


@dataclass(frozen=True)
class Colliding:
    """What was found: the collisions, and the workspaces in them in the order in which they had better be merged."""

    collisions: list[Collision]
    order: list[Workspace]

    def of(self, workspace: Workspace) -> list[Collision]:
        return [each for each in self.collisions if each.is_of(workspace)]


def open_places(rows) -> list[Workspace]:
    """Return the workspaces of a queryset that have changed something and could be merged, those used last first."""
    rows = rows.kept().filter(state__in=OPEN, head__isnull=False, baseline__isnull=False)
    rows = rows.select_related("team", "environment", "head", "baseline", "forked_from__team")
    return list(rows.order_by("-last_active_at")[: 4 * MAX_PLACES])


def of_workspace(workspace: Workspace) -> Colliding:
    """Return how a workspace collides with others of its team."""
    if not workspace.remote:
        return Colliding([], [])
    found = among(open_places(Workspace.objects.filter(team=workspace.team_id)))
    mine = found.of(workspace)
    here = {place.pk for each in mine for place in (each.first, each.then)}
    return Colliding(mine, [place for place in found.order if place.pk in here])


def among(places: Iterable[Workspace]) -> Colliding:
    """Return the collisions among workspaces, in their order of merging. Attempts at one task never collide."""
    groups = defaultdict(list)
    for place in places:
        if name := repository_of(place):
            groups[place.team_id, name].append(place)
    order = merge_order([place for group in groups.values() for place in group[:MAX_PLACES] if len(group) > 1])
    rank = {place.pk: number for number, place in enumerate(order)}
    tasks, until, found = extensions.ports.tasks_of(order), time.monotonic() + SECONDS, []
    for group in groups.values():
        for one, other in combinations([place for place in group if place.pk in rank], 2):
            same_task = tasks.get(one.pk) is not None and tasks.get(one.pk) == tasks.get(other.pk)
            if same_task or len(found) == MAX_PAIRS or not _touched(one, until) & _touched(other, until):
                continue
            first, then = sorted((one, other), key=lambda place: rank[place.pk])
            files, *rest = _compared(first, then, until)
            if files:
                found.append(Collision(first, then, files, *rest))
    found.sort(key=lambda each: (rank[each.first.pk], rank[each.then.pk]))
    here = {place.pk for each in found for place in (each.first, each.then)}
    return Colliding(found, [place for place in order if place.pk in here])


def merge_order(places: list[Workspace]) -> list[Workspace]:
    """Return workspaces in the order in which they had better be merged.

    First what has a pull request, the oldest one first, then what has passed its checks, then the older ones.
    """
    rows = PullRequest.objects.filter(workspace__in=places).order_by("-opened_at").values_list("workspace", "opened_at")
    opened, checks = dict(rows), checks_of(*places)

    def rank(place: Workspace) -> tuple:
        states = {check.state for check in checks[place.pk]}
        if place.pk in opened:
            return 0, opened[place.pk]
        return 1 if states == {CheckState.PASSED} else 2, place.created_at

    return sorted(places, key=rank)


def _touched(place: Workspace, until: float) -> frozenset[str]:
    """Return the paths that a workspace changed since it began; none if that is not known in time, or too much."""
    old, new = place.baseline.tree_hex, place.head.tree_hex
    if old == new:
        return frozenset()
    key = f"touched-paths:{place.team_id}:{old}:{new}"
    if (known := cache.get(key)) is not None:
        return frozenset(known)
    if time.monotonic() > until:
        return frozenset()
    try:
        rows = Changes(stores.readable(place.team_id), (old, new), owners=False).written()
    except (StoreError, Problem):
        return frozenset()
    names = {_text(name) for row in rows for name in (row.path, row.old_path) if name and not _is_ours(name)}
    found = sorted(names) if len(names) <= MAX_PATHS else []
    cache.set(key, found, KEPT_SECONDS)
    return frozenset(found)


def _is_ours(path: bytes) -> bool:
    return path.startswith(b".handrail/") or path == b".handrail"


def shown(path: str) -> str:
    """Return a path as text that every encoder takes."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _compared(one: Workspace, other: Workspace, until: float) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    """Return (paths that both changed differently, those that git could not merge, whether both could be compared)."""
    trees = [place.tree_hex for place in (one.baseline, one.head, other.baseline, other.head)]
    key = f"collision:{one.team_id}:{hashlib.sha256(' '.join(trees).encode()).hexdigest()}"
    if (known := cache.get(key)) is not None:
        return tuple(known[0]), tuple(known[1]), True
    both = tuple(sorted(_touched(one, until) & _touched(other, until)))
    if time.monotonic() > until:
        return both, (), False
    try:
        files = compare_forks(Point(one, one.head.number), Point(other, other.head.number)).files
    except (StoreError, Problem):
        return both, (), False  # they began with other commits: which lines are the same is not known
    shared = [each for each in files if each.state == DIFFERENT and not _is_ours(each.path)]
    found = [_text(each.path) for each in shared], [_text(each.path) for each in shared if each.conflict]
    cache.set(key, found, KEPT_SECONDS)
    return tuple(found[0]), tuple(found[1]), True

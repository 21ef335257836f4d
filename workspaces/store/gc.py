"""Garbage collection: remove unreferenced objects from the index, and repack packs that are mostly dead.

An object that the index names is stored with everything below it; snapshots rely on that. So dead objects leave the
index even where their bytes stay in a pack. The replacement of the head commits the collection; before it nothing has
changed, after it the old files are unreferenced.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from . import blocks
from .content import pieces_of
from .errors import Damaged, Missing, StoreError
from .index.catalog import Catalog, View
from .index.head import Head
from .index.segment import Place, encode_segment, merged
from .objects import EMPTY, FILE, FOLDER, LISTED, decode_list
from .progress import Watch
from .writer import Writer

if TYPE_CHECKING:
    from .blobs import Blobs

MOSTLY_DEAD = 0.5


class Collected(NamedTuple):
    """The result of a collection; `bytes` is the size of all packs now."""

    trees: int
    objects: int
    removed_objects: int
    freed_bytes: int
    bytes: int


# -- marking -------------------------------------------------------------------------------------------------------


class Marks:
    """The objects reachable from a set of trees, by block kind."""

    def __init__(self, catalog: Catalog, watch: Watch | None = None):
        self._catalog, self._watch = catalog, watch or Watch()
        self.meta: set[bytes] = set()
        self.data: set[bytes] = set()

    def has(self, content: bytes) -> bool:
        return content in self.data or content in self.meta

    def add(self, tree: bytes) -> None:
        """Mark a tree and all objects reachable from it. Raise Missing or Damaged if one cannot be read."""
        stack = [tree]
        while stack:
            content = stack.pop()
            if content in self.meta:
                continue
            self.meta.add(content)
            found = self._catalog.folder(content)
            self._watch.tick(len(found.names))
            for entry in found:
                if entry.kind == FOLDER and entry.kept:
                    stack.append(entry.content)
                elif entry.kind == FILE and entry.kept and entry.content != EMPTY:
                    self._file(entry)

    def _file(self, entry) -> None:
        if not entry.flags & LISTED:
            self.data.add(entry.content)
        elif entry.content not in self.meta:
            self.meta.add(entry.content)
            self.data.update(content for _, content in pieces_of(self._catalog, entry) if content)


# -- sweeping ------------------------------------------------------------------------------------------------------


class _Overtaken(Exception):
    """Another collection was committed meanwhile, or a tree was held: marking must start again."""


def collect(
    catalog: Catalog, keep: Callable[[], set[bytes]], since: float, watch: Watch, share: float = MOSTLY_DEAD
) -> Collected:
    """Run a garbage collection. Packs with less than `share` in use are rewritten, all of them if it is infinite."""
    while True:
        writer = Writer(catalog)
        try:
            return _Collection(catalog, writer, keep, since, watch, share).run()
        except BaseException as error:
            writer.abort()
            if not isinstance(error, _Overtaken):
                raise


class _Collection:
    """One attempt. If snapshots are committed meanwhile, their trees are marked too and the attempt goes on."""

    def __init__(
        self,
        catalog: Catalog,
        writer: Writer,
        wanted: Callable[[], set[bytes]],
        since: float,
        watch: Watch,
        share: float,
    ):
        self.catalog, self.writer, self.blobs = catalog, writer, catalog.blobs
        self.wanted, self.since, self.watch, self.share = wanted, since, watch, share
        self.keep: set[bytes] = set()
        self.marks, self.trees = Marks(catalog, watch), set()
        self.orphans = self.blobs.orphans(writer.head)

    def run(self) -> Collected:
        after = self._after(self.writer.view)
        before = self.writer.head
        if self.removed or self.doomed or after.gone != before.gone:
            with self.blobs.without_new_holds():
                self._check_holds(before)
                after = self.writer.publish(self._again)
            self.blobs.tidy(after)
        self.writer.close()
        self.blobs.remove_gone(after, at_once=self.share > 1)
        return Collected(len(self.trees), self.objects, self.removed, self.freed, sum(after.packs.values()))

    def _check_holds(self, head: Head) -> None:
        if self.blobs.held(head) - self.trees & self._present:
            raise _Overtaken

    def _again(self, view: View) -> Head:
        return self._made if view is self.writer.view else self._after(view)

    def _after(self, view: View) -> Head:
        """Return the head without what is dead in a view of the store."""
        head, writer = view.head, self.writer
        if head.collected != writer.head.collected:
            raise _Overtaken
        self._mark(head)
        before = merged(view.segments.values())
        live = {content: place for content, place in before.items() if self.marks.has(content)}
        doomed = _mostly_dead(self.blobs, head, before, live, self.share)
        writer.sink.closed |= doomed
        self._rewrite(live, doomed, view)
        packs = writer.sink.numbered(head)
        moved = writer.places(packs.shift)
        self.watch.check()  # the last chance to cancel: publishing the head commits
        self._present = before.keys()
        self._check_holds(head)
        sizes = {number: size for number, size in packs.packs.items() if number not in doomed}
        self.doomed, self.objects, self.removed = doomed, len(live), len(before) - len(live)
        self.freed = sum(head.packs.values()) - sum(sizes.values())
        now = self.blobs.clock()
        made = head._replace(
            generation=head.generation + 1,
            collected=head.collected + 1,
            next_pack=packs.next_pack,
            packs=sizes,
            names={number: name for number, name in packs.names.items() if number not in doomed},
            segments=self._segments(view, live, moved),
            trees={tree: at for tree, at in head.trees.items() if bytes.fromhex(tree) in self.trees},
            holds={tree: until for tree, until in head.holds.items() if until > now},
        )
        self._made = self.blobs.leaving(head, made, self.orphans)
        return self._made

    def _segments(self, view: View, live: dict[bytes, Place], moved: dict[bytes, Place]) -> list[str]:
        if not self.removed and not self.doomed:
            return view.head.segments
        return [self.writer.sink.put_segment(encode_segment(live | moved))] if live else []

    def _mark(self, head: Head) -> None:
        self.keep |= self.wanted()  # after `head`, so also what was committed and noted since the last attempt
        known = self.writer.head.trees
        recent = {bytes.fromhex(tree) for tree, at in head.trees.items() if at >= self.since or known.get(tree) != at}
        for tree in sorted((self.keep | recent | self.blobs.held(head)) - self.trees):
            try:
                self.marks.add(tree)
            except Missing as error:
                if tree in self.keep:
                    raise StoreError(f"nothing was removed: tree {tree.hex()} is in use, but {error}") from error
                continue  # a hold on a tree that is not stored has no effect
            self.trees.add(tree)

    def _rewrite(self, live: dict[bytes, Place], doomed: set[int], view: View) -> None:
        """Copy the live objects of doomed packs.

        A pack with an unreadable live object is removed from `doomed` and stays as it is.
        """
        by_pack: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
        for content, place in live.items():
            if place.pack in doomed and content not in self.writer.fresh:
                by_pack[place.pack].append((place.block, content))
        self.catalog.fetch(live[content] for found in by_pack.values() for _, content in found)
        for pack, found in sorted(by_pack.items()):
            contents = [content for _, content in sorted(found)]
            try:
                for content in contents:
                    self.catalog.blob_at(content, live[content], view)
            except (Damaged, OSError):
                doomed.discard(pack)
                continue
            for content in contents:
                kind = blocks.META if content in self.marks.meta else blocks.DATA
                self.writer.copy(self.catalog.blob_at(content, live[content], view), kind, content)
                self.watch.tick(0, live[content].length)
        self.writer.flush()


def _mostly_dead(
    blobs: Blobs, head: Head, before: dict[bytes, Place], live: dict[bytes, Place], share: float = MOSTLY_DEAD
) -> set[int]:
    """Return the packs to repack: those with less than `share` in use, and small ones if there are many."""
    total, needed = defaultdict(int), defaultdict(int)
    for content, place in before.items():
        total[place.pack] += place.length
        if content in live:
            needed[place.pack] += place.length
    # `before` lacks the objects that earlier collections removed, so compare with the size of the pack too.
    sizes, stored = head.packs, _stored(live)
    return blobs.too_small(sizes) | {
        pack
        for pack, size in sizes.items()
        if not needed[pack] or needed[pack] < share * total[pack] or stored[pack] < share * size
    }


def _stored(live: dict[bytes, Place]) -> dict[int, int]:
    """Return {pack: bytes of its blocks that hold a live object}."""
    stored: dict[int, int] = defaultdict(int)
    for pack, _, length in {(place.pack, place.block, place.block_length) for place in live.values()}:
        stored[pack] += length
    return stored


# -- usage ---------------------------------------------------------------------------------------------------------


class Usage(NamedTuple):
    """Disk usage in bytes. `bytes`: the whole store on disk; `reach[tree]`: stored size of all objects of a tree.

    `alone[tree]` estimates the stored bytes that removing only that tree would free.
    """

    bytes: int
    alone: dict[str, int]
    reach: dict[str, int]


def freed(catalog: Catalog, going: Iterable[bytes], kept: Iterable[bytes]) -> int:
    """Estimate the stored bytes that removing the trees of `going` together frees while those of `kept` stay."""
    catalog.refresh()
    places = merged(catalog.view.segments.values())
    stays, goes = Marks(catalog), Marks(catalog)
    for tree in kept:
        stays.add(tree)
    for tree in going:
        goes.add(tree)
    share = _shares(places)
    return round(sum(share(content) for content in (goes.meta | goes.data) - stays.meta - stays.data))


class Forecast(NamedTuple):
    """What the next collection frees on disk, and the unneeded bytes that stay in packs that are mostly in use.

    `held`: what it would free besides, if no tree were held: one that was written within the last hour.
    """

    freed: int
    waiting: int
    held: int = 0

    def __sub__(self, other: Forecast) -> Forecast:
        return Forecast(*(max(0, mine - its) for mine, its in zip(self, other, strict=True)))


def forecast(catalog: Catalog, going: Iterable[bytes], kept: Iterable[bytes], at: float | None = None) -> Forecast:
    """Estimate what a collection (at `at`, None: now) frees as the trees of `going` are removed and `kept` stay.

    What is unneeded even with the trees of `going` does not count.
    """
    catalog.refresh()
    places = merged(catalog.view.segments.values())
    going, marks = set(going), Marks(catalog)
    for tree in kept:
        marks.add(tree)
    unheld = without = _forecast(catalog, places, marks)
    if leased := catalog.blobs.held(catalog.view.head, at) & going:
        for tree in leased:
            marks.add(tree)
        without = _forecast(catalog, places, marks)
    for tree in going - leased:
        marks.add(tree)
    found = without - _forecast(catalog, places, marks)
    return found._replace(held=max(0, unheld.freed - without.freed))


def _forecast(catalog: Catalog, places: dict[bytes, Place], marks: Marks) -> Forecast:
    live = {content: place for content, place in places.items() if content in marks.data or content in marks.meta}
    doomed, share = _mostly_dead(catalog.blobs, catalog.view.head, places, live), _shares(places)
    needed: dict[int, float] = defaultdict(float)
    for content, place in live.items():
        needed[place.pack] += share(content)
    dead = {pack: max(0, size - round(needed[pack])) for pack, size in catalog.view.head.packs.items()}
    return Forecast(
        freed=sum(size for pack, size in dead.items() if pack in doomed),
        waiting=sum(size for pack, size in dead.items() if pack not in doomed),
    )


def _shares(places: dict[bytes, Place]) -> Callable[[bytes], float]:
    """Return a function from an object id to its part of a block's stored bytes, in proportion to raw length."""
    raw: dict[tuple[int, int], int] = defaultdict(int)
    for place in places.values():
        raw[place.pack, place.block] += place.length

    def stored(content: bytes) -> float:
        place = places[content]
        return place.block_length * place.length / max(1, raw[place.pack, place.block])

    return stored


def alone(catalog: Catalog, trees: Iterable[tuple[str, bytes]], watch: Watch | None = None) -> dict[str, int]:
    """Estimate for each owner the stored bytes that only its trees need: what removing all of them frees.

    `trees` are pairs (owner, tree). Each object is visited at most twice, however many trees there are: for the first
    owner that needs it and for the second. An unreadable object counts as having nothing below it.
    """
    catalog.refresh()
    places, watch = merged(catalog.view.segments.values()), watch or Watch()
    share, found = _shares(places), defaultdict(float)
    owners: dict[bytes, str | None] = {}  # None: more than one owner
    for owner, tree in trees:
        found[owner] += 0
        stack = [(tree, _in_folder)]
        while stack:
            content, below = stack.pop()
            if owners.get(content, "") in (owner, None) or content not in places:
                continue
            owners[content] = None if content in owners else owner
            watch.tick(1)
            with contextlib.suppress(StoreError):
                stack += below(catalog, content)
    for content, owner in owners.items():
        if owner is not None:
            found[owner] += share(content)
    return {owner: round(size) for owner, size in found.items()}


def _in_folder(catalog: Catalog, content: bytes) -> list[tuple]:
    entries = [entry for entry in catalog.folder(content) if entry.kept and entry.kind in (FILE, FOLDER)]
    how = {FILE: _in_nothing, FOLDER: _in_folder}
    return [(entry.content, _in_list if entry.flags & LISTED else how[entry.kind]) for entry in entries]


def _in_list(catalog: Catalog, content: bytes) -> list[tuple]:
    return [(piece, _in_nothing) for _, piece in decode_list(catalog.blob(content)) if piece]


def _in_nothing(catalog: Catalog, content: bytes) -> list[tuple]:
    return []


def measure(catalog: Catalog, trees: list[bytes]) -> Usage:
    """Measure the disk usage of the store and of each tree."""
    catalog.refresh()
    stored = _shares(merged(catalog.view.segments.values()))
    users: dict[bytes, int] = defaultdict(int)
    needs: dict[bytes, set[bytes]] = {}
    for tree in trees:
        marks = Marks(catalog)
        marks.add(tree)
        needs[tree] = marks.meta | marks.data
        for content in needs[tree]:
            users[content] += 1

    reach = {tree.hex(): round(sum(stored(content) for content in found)) for tree, found in needs.items()}
    alone = {
        tree.hex(): round(sum(stored(content) for content in found if users[content] == 1))
        for tree, found in needs.items()
    }
    return Usage(catalog.blobs.stored_bytes(catalog.view.head), alone, reach)

"""Garbage collection: remove unreferenced objects from the index, and repack packs that are mostly dead.

An object that the index names is stored with everything below it; snapshots rely on that. So dead objects leave the
index even where their bytes stay in a pack. The replacement of the head commits the collection; before it nothing has
changed, after it the old files are unreferenced.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from . import blocks
from .atomic_write import flush_folder, replace_file
from .content import pieces_of
from .errors import Damaged, Missing, StoreError
from .index.catalog import Catalog, pack_path
from .index.segment import Place, merged
from .objects import EMPTY, FILE, FOLDER, LISTED, decode_list
from .progress import Watch
from .writer import Writer

MOSTLY_DEAD = 0.5
_CACHE_DAYS = 60


class Collected(NamedTuple):
    """The result of a collection; `bytes` is the size of all packs now."""

    trees: int
    objects: int
    removed_objects: int
    freed_bytes: int
    bytes: int


# -- holds ---------------------------------------------------------------------------------------------------------


def write_protection(folder: Path, tree_id: str, seconds: float) -> None:
    """Hold a tree for `seconds` from now, unless a hold that lasts longer exists."""
    path = folder / tree_id
    until = time.time() + seconds
    with contextlib.suppress(OSError, ValueError):
        if float(path.read_text()) >= until:
            return
    # Hold a little longer than requested, so that a caller that renews every few seconds seldom has to write.
    replace_file(path, f"{until + min(60.0, seconds):.3f}\n".encode())


def protected_trees(folder: Path, at: float | None = None) -> set[bytes]:
    """Return the trees that are held now, or at a later time (seconds since 1970); delete expired holds."""
    trees, at = set(), at or time.time()
    for path in folder.iterdir():
        try:
            if path.name.endswith(".new"):
                if path.stat().st_mtime < time.time() - 3600:
                    path.unlink()  # left by a process that died while writing it
            elif (until := float(path.read_text())) > at:
                trees.add(bytes.fromhex(path.name))
            elif until <= time.time():
                path.unlink()
        except (OSError, ValueError):
            continue  # released since the folder was listed
    return trees


# -- marking -------------------------------------------------------------------------------------------------------


class Marks:
    """The objects reachable from a set of trees, by block kind."""

    def __init__(self, catalog: Catalog, watch: Watch | None = None):
        self._catalog, self._watch = catalog, watch or Watch()
        self.meta: set[bytes] = set()
        self.data: set[bytes] = set()

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


def collect(catalog: Catalog, keep: set[bytes], since: float, watch: Watch, share: float = MOSTLY_DEAD) -> Collected:
    """Run a garbage collection; the caller holds the writer lock. Packs with less than `share` in use are rewritten."""
    while True:
        writer = Writer(catalog)
        try:
            marks, trees = _mark(catalog, keep, since, watch)
            result = _sweep(catalog, writer, marks, trees, watch, share)
        except BaseException:
            writer.abort()
            raise
        if result is not None:
            return result
        writer.abort()


def _mark(catalog: Catalog, keep: set[bytes], since: float, watch: Watch) -> tuple[Marks, set[bytes]]:
    recent = {bytes.fromhex(tree) for tree, at in catalog.view.head.trees.items() if at >= since}
    marks, trees = Marks(catalog, watch), set()
    for tree in sorted(keep | recent | protected_trees(catalog.store / "holds")):
        try:
            marks.add(tree)
        except Missing as error:
            if tree in keep:
                raise StoreError(f"nothing was removed: tree {tree.hex()} is in use, but {error}") from error
            continue  # a hold on a tree that is not stored has no effect
        trees.add(tree)
    return marks, trees


def _sweep(
    catalog: Catalog, writer: Writer, marks: Marks, trees: set[bytes], watch: Watch, share: float
) -> Collected | None:
    """Write the new state. Return None if another tree was held meanwhile, so that marking must start again."""
    before = merged(catalog.view.segments.values())
    live = {content: place for content, place in before.items() if content in marks.data or content in marks.meta}
    doomed = _mostly_dead(catalog, before, live, share)
    writer.closed |= doomed
    moved = _rewrite(catalog, writer, marks, live, doomed, watch)
    writer.flush()
    packs = {number: size for number, size in writer.packs.items() if number not in doomed}
    watch.check()  # the last chance to cancel: publishing the head commits
    if {tree for tree in protected_trees(catalog.store / "holds") - trees if tree in before}:
        return None
    freed = sum(writer.head.packs.values()) - sum(packs.values())
    if len(live) < len(before) or doomed:
        head = writer.head._replace(
            generation=writer.head.generation + 1,
            collected=writer.head.collected + 1,
            next_pack=writer.next_pack,
            packs=packs,
            segments=[writer.add_segment(live | moved)] if live else [],
            trees={tree: at for tree, at in writer.head.trees.items() if bytes.fromhex(tree) in trees},
        )
        writer.publish(head)
        for number in doomed:
            pack_path(catalog.store, number).unlink(missing_ok=True)
        for name in set(writer.head.segments) - set(head.segments):
            (catalog.store / "index" / name).unlink(missing_ok=True)
        flush_folder(catalog.store / "packs")
    writer.close()
    _forget_old_caches(catalog.store / "caches")
    return Collected(len(trees), len(live), len(before) - len(live), freed, sum(packs.values()))


def _mostly_dead(
    catalog: Catalog, before: dict[bytes, Place], live: dict[bytes, Place], share: float = MOSTLY_DEAD
) -> set[int]:
    """Return the packs to repack: those with less than `share` in use."""
    total, needed = defaultdict(int), defaultdict(int)
    for content, place in before.items():
        total[place.pack] += place.length
        if content in live:
            needed[place.pack] += place.length
    # `before` lacks the objects that earlier collections removed, so compare with the size of the pack too.
    sizes, stored = catalog.view.head.packs, _stored(live)
    return {
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


def _rewrite(
    catalog, writer: Writer, marks: Marks, live: dict[bytes, Place], doomed: set[int], watch: Watch
) -> dict[bytes, Place]:
    """Copy the live objects of doomed packs and return their new places.

    A pack with an unreadable live object is removed from `doomed` and stays as it is.
    """
    by_block: dict[tuple[int, int], list[bytes]] = defaultdict(list)
    for content, place in live.items():
        if place.pack in doomed:
            by_block[place.pack, place.block].append(content)
    for pack, contents in _by_pack(by_block):
        try:
            for content in contents:
                catalog.blob_at(content, live[content])
        except (Damaged, OSError):
            doomed.discard(pack)
            continue
        for content in contents:
            kind = blocks.META if content in marks.meta else blocks.DATA
            writer.copy(catalog.blob_at(content, live[content]), kind, content)
            watch.tick(0, live[content].length)
    writer.flush()
    return dict(writer.places)


def _by_pack(by_block: dict[tuple[int, int], list[bytes]]) -> Iterable[tuple[int, list[bytes]]]:
    packs: dict[int, list[bytes]] = defaultdict(list)
    for (pack, _), contents in sorted(by_block.items()):
        packs[pack].extend(contents)
    return packs.items()


def _forget_old_caches(folder: Path) -> None:
    oldest = time.time() - _CACHE_DAYS * 86400
    for found in os.scandir(folder):
        if found.stat().st_mtime < oldest:
            os.unlink(found.path)


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
    if leased := protected_trees(catalog.store / "holds", at) & going:
        for tree in leased:
            marks.add(tree)
        without = _forecast(catalog, places, marks)
    for tree in going - leased:
        marks.add(tree)
    found = without - _forecast(catalog, places, marks)
    return found._replace(held=max(0, unheld.freed - without.freed))


def _forecast(catalog: Catalog, places: dict[bytes, Place], marks: Marks) -> Forecast:
    live = {content: place for content, place in places.items() if content in marks.data or content in marks.meta}
    doomed, share = _mostly_dead(catalog, places, live), _shares(places)
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
    on_disk = sum(
        found.stat().st_size for name in ("packs", "index", "caches") for found in os.scandir(catalog.store / name)
    )
    return Usage(on_disk, alone, reach)

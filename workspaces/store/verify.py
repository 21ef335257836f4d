"""Verify the store, its structure or every byte, and list the files that damage affects."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from blake3 import blake3

from . import blocks
from .content import pieces_of, stream_entry
from .depth import raise_limits_at
from .diff import below
from .errors import Damaged, StoreError
from .index.catalog import Catalog
from .index.segment import Place
from .objects import EMPTY, FILE, FOLDER, SYMLINK, Entry, decode_folder
from .progress import Watch

if TYPE_CHECKING:
    from .blobs import Pack

_HEAD_BYTES = 1 << 16


class Problem(NamedTuple):
    """One problem: where, what, and the files that it affects as (tree id, path).

    `harmless`: no object that the index names is affected.
    """

    where: str
    what: str
    hurts: list[tuple[str, bytes]]
    harmless: bool = False


class Findings(NamedTuple):
    """The result of a check. `ok` is True if all problems are harmless."""

    full: bool
    packs: int
    objects: int
    trees: int
    bytes: int
    problems: list[Problem]

    @property
    def ok(self) -> bool:
        return all(problem.harmless for problem in self.problems)


class _Check:
    def __init__(self, catalog: Catalog, full: bool, watch: Watch):
        self.watch = watch
        catalog.refresh()
        self.catalog, self.full, self.view = catalog, full, catalog.view
        self.problems: list[tuple[str, str, set[bytes]]] = []
        self.places: dict[bytes, Place] = {}
        self.bad: dict[bytes, int] = {}  # object -> its problem
        self.harmless: set[int] = set()
        self.meta: set[bytes] = set()
        self.bytes = 0

    def note(self, where: str, what: str, contents=()) -> None:
        number = len(self.problems)
        self.problems.append((where, what, set(contents)))
        for content in contents:
            self.bad.setdefault(content, number)

    def run(self) -> Findings:
        self._segments()
        by_pack: dict[int, dict[int, list[bytes]]] = defaultdict(lambda: defaultdict(list))
        for content, place in self.places.items():
            by_pack[place.pack][place.block].append(content)
        self.watch.total_bytes = sum(size for _, size in self.catalog.packs())
        for number, size in self.catalog.packs():
            self._pack(number, size, by_pack.pop(number, {}))
        for number, by_block in by_pack.items():
            self.note(f"pack {number:08d}", "is not in the head", [c for found in by_block.values() for c in found])
        trees, hurts = self._trees()
        problems = [
            Problem(where, what, sorted(hurts.get(number, ())), number in self.harmless)
            for number, (where, what, _) in enumerate(self.problems)
        ]
        return Findings(self.full, len(self.view.head.packs), len(self.places), trees, self.bytes, problems)

    def _segments(self) -> None:
        for segment in self.view.segments.values():
            try:
                segment.check()
            except Damaged as error:
                self.note(f"index/{segment.path.name}", f"{error}; `reindex` rebuilds it from the packs")
            for content, place in segment.items():
                self.places[content] = place

    # -- packs -----------------------------------------------------------------------------------------------------

    def _pack(self, number: int, size: int, wanted: dict[int, list[bytes]]) -> None:
        contents = [content for found in wanted.values() for content in found]
        try:
            pack = self.catalog.blobs.original(self.view.head, number, full=self.full)
            length = pack.size()
        except OSError as error:
            self.note(f"packs/{self.catalog.blobs.name_of(self.view.head, number)}", error.strerror, contents)
            return
        if length < size:
            self.note(f"packs/{pack.name}", f"is {length} bytes long, {size} were committed")
        at = 0
        while at < size:
            before, at = at, self._block(pack, at, size, wanted)
            self.watch.tick(0, at - before)
        for offset, contents in wanted.items():
            self.note(f"packs/{pack.name}", f"has no block at {offset}, which the index names", contents)

    def _block(self, pack: Pack, at: int, size: int, wanted: dict[int, list[bytes]]) -> int:
        """Check the block at an offset and return the offset of the next one."""
        where = f"packs/{pack.name} block at {at}"
        contents = wanted.pop(at, [])
        try:
            head = pack.read(at, _HEAD_BYTES)
            info = blocks.read_header(head, where)
            if at + info.length > size:
                raise Damaged(f"{where} extends beyond the end of its pack")
            need = info.length if self.full or info.kind == blocks.META else info.length - info.stored
            data = head[:need] if need <= len(head) else pack.read(at, need)
            self._block_table(data, info, where, contents, at)
            if need == info.length:
                self._block_bytes(data, where)
            self.bytes += need
            return at + info.length
        except Damaged as error:
            if not contents:  # left by a removed snapshot or dropped by a repair
                self.harmless.add(len(self.problems))
            self.note(where, _without(where, str(error)) + ("" if contents else "; nothing needs it"), contents)
            # The index still has the block's length, and so the offset of the next one.
            return min(wanted, default=size) if (known := _length(contents, self.places)) is None else at + known

    def _block_table(self, data: bytes, info: blocks.BlockInfo, where: str, contents: list[bytes], at: int) -> None:
        table = {
            content: (offset, length)
            for content, offset, length in blocks.table(data, info, self.catalog.blobs.keys, where)
        }
        if info.kind == blocks.META:
            self.meta.update(content for content in table if content in self.places)
        for content in contents:
            place = self.places[content]
            if table.get(content) != (place.offset, place.length) or place.block_length != info.length:
                raise Damaged(f"{where} does not match the index")

    def _block_bytes(self, data: bytes, where: str) -> None:
        info = blocks.check_block(data, where)
        keys = self.catalog.blobs.keys
        raw = blocks.payload(data, info, where, keys)
        for content, offset, length in blocks.table(data, info, keys, where):
            if blake3(raw[offset : offset + length]).digest() != content:
                self.note(where, f"{content.hex()} does not match its content id", [content])

    # -- trees -----------------------------------------------------------------------------------------------------

    def _trees(self) -> tuple[int, dict[int, set[tuple[str, bytes]]]]:
        """Walk every tree; return the number of trees, and by problem number the (tree id, path) that it affects."""
        hurts: dict[int, set[tuple[str, bytes]]] = defaultdict(set)
        roots = [content for content in self.meta if self._is_root(content)]
        clean: set[bytes] = set()
        for root in sorted(roots):
            for path, content in self._broken(root, b"", root, clean):
                if content not in self.bad:
                    self.note("index", f"does not know {content.hex()}, which a tree needs", [content])
                hurts[self.bad[content]].add((root.hex(), path))
        for tree in set(self.view.head.trees) - {root.hex() for root in roots}:
            content = bytes.fromhex(tree)
            if content not in self.bad:
                self.note("head", f"names tree {tree}, which cannot be read", [content])
            hurts[self.bad[content]].add((tree, b""))
        return len(roots), hurts

    def _is_root(self, content: bytes) -> bool:
        try:
            data = self.catalog.blob(content)
            return data[:2] == b"HT" and decode_folder(data).names == [b""]
        except (StoreError, OSError):
            self.bad.setdefault(content, self._unread(content))
            return False

    def _unread(self, content: bytes) -> int:
        self.note("index", f"leads to {content.hex()}, which cannot be read", [content])
        return len(self.problems) - 1

    def _broken(self, root: bytes, path: bytes, folder: bytes, clean: set[bytes]) -> list[tuple[bytes, bytes]]:
        """Return (path, object id) of each missing or damaged object of a folder; add intact folders to `clean`."""
        if folder in clean:
            return []
        self.watch.tick()
        raise_limits_at(path)
        try:
            if folder in self.bad:
                return [(path, folder)]
            entries = list(self.catalog.folder(folder))
        except (StoreError, OSError):
            return [(path, folder)]
        found: list[tuple[bytes, bytes]] = []
        for entry in entries:
            at = path + b"/" + entry.name if path and entry.name else path or entry.name
            if entry.kind == FOLDER and entry.kept:
                found += self._broken(root, at, entry.content, clean)
            elif entry.kind == FILE and entry.kept and entry.content != EMPTY:
                found += [(at, content) for content in self._file(entry)]
        if not found:
            clean.add(folder)
        return found

    def _file(self, entry: Entry) -> list[bytes]:
        needs = [entry.content]
        try:
            needs += [content for _, content in pieces_of(self.catalog, entry) if content]
        except (StoreError, OSError):
            return [entry.content]
        return [content for content in dict.fromkeys(needs) if content in self.bad or content not in self.places]


def _length(contents: list[bytes], places: dict[bytes, Place]) -> int | None:
    return places[contents[0]].block_length if contents else None


def _without(where: str, message: str) -> str:
    return message.removeprefix(where).strip()


def check(catalog: Catalog, full: bool, watch: Watch) -> Findings:
    """Check the structure, or every byte if `full`. Damage is returned as problems, not raised."""
    return _Check(catalog, full, watch).run()


def read_back(catalog: Catalog, root: Entry, watch: Watch) -> list[bytes]:
    """Read all content of a tree, which is verified against its ids; return the paths whose content it lacks."""
    lacking = []
    for path, entry in below(catalog.folder, b"", root):
        if entry.kept and entry.kind == FILE:
            for _ in stream_entry(catalog, entry):
                watch.check()
        elif not entry.kept and entry.kind in (FILE, FOLDER, SYMLINK):
            lacking.append(path[1:])
        watch.tick(1, entry.size if entry.kind == FILE else 0)
    return lacking

"""Send a guest the entries that a restore places, in the order of their bytes in the packs, then the steps."""

import itertools
import json

from blake3 import blake3

from ..attributes import Rules
from ..content import pieces_of
from ..depth import raise_limits_at
from ..errors import Damaged, StoreError
from ..journal import as_text
from ..objects import FIFO, FILE, FOLDER, LISTED, SYMLINK, Entry
from ..plan import Plan
from ..staging import Tick
from .protocol import FILL, Wire


class Sender:
    """Send a plan's new entries to a guest; names in the stage are the numbers of the steps."""

    def __init__(self, wire: Wire, catalog, plan: Plan, rules: Rules, links: dict[bytes, list[bytes]], tick: Tick):
        self.wire, self.catalog, self.plan, self.rules, self.tick = wire, catalog, plan, rules, tick
        self._live_links = links
        self._staged_links: dict[bytes, bytes] = {}
        self._items: list[list] = []
        self._body, self._named = bytearray(), 0
        self._files: list[tuple] = []  # (place or None, path in the stage, entry)
        self._folders: list[tuple[bytes, Entry]] = []

    def send(self) -> None:
        """Send all entries and then the steps; the guest's next response is the result of the restore."""
        for number, step in enumerate(self.plan.steps):
            if step.want is not None and not step.adjust:
                self._put(b"%d" % number, step.path, step.want)
        whole = sorted((file for file in self._files if file[0]), key=lambda file: file[0])
        self.catalog.fetch(place for place, _, _ in whole)
        for _, files in itertools.groupby(whole, key=lambda file: file[0][:2]):
            self._block(list(files))
        for place, path, entry in self._files:
            if place is None:
                self._single(path, entry)
        for path, entry in reversed(self._folders):
            self._make("finish", path, self._attributes(entry))
        self._flush()
        text = json.dumps(list(self.plan.drafts(self.rules))).encode()
        for start in range(0, len(text), FILL):
            self.wire.send({"drafts": start + FILL < len(text)}, text[start : start + FILL])

    def _put(self, staged: bytes, path: bytes, entry: Entry) -> None:
        if entry.kind == FILE:
            whole = entry.size and not entry.flags & LISTED and not entry.link
            self._files.append((self.catalog.locate(entry.content) if whole else None, staged, entry))
        elif entry.kind == FOLDER:
            self._make("folder", staged)
            self._folders.append((staged, entry))
            raise_limits_at(staged)
            self.tick(1, 0)
            for inner in self.catalog.folder(entry.content):
                below = path + b"/" + inner.name
                if self.plan.wanted(below, inner):
                    self._put(staged + b"/" + inner.name, below, inner)
        elif entry.kind == SYMLINK:
            self._make("symlink", staged, as_text(entry.target), self._attributes(entry))
            self.tick(1, 0)
        elif entry.kind == FIFO:
            self._make("fifo", staged, self._attributes(entry))
            self.tick(1, 0)
        else:
            raise StoreError(f"a {entry.type} cannot be restored")

    def _attributes(self, entry: Entry) -> list:
        return self.rules.attributes(entry).as_list()

    def _make(self, kind: str, path: bytes, *rest, data: bytes | memoryview = b"") -> None:
        self._items.append([kind, as_text(path), *rest])
        self._body += data
        self._named += len(path)
        if len(self._body) + self._named >= FILL or len(self._items) >= 1000:
            self._flush()

    def _flush(self) -> None:
        if self._items:
            self.wire.send({"make": self._items}, self._body)
            self._items, self._body, self._named = [], bytearray(), 0

    def _block(self, files: list[tuple]) -> None:
        """Send the files of one block."""
        raw = memoryview(self.catalog.raw_block(files[0][0]))
        total = 0
        for place, path, entry in files:
            data = raw[place.offset : place.offset + place.length]
            if place.length != entry.size or blake3(data).digest() != entry.content:
                raise Damaged(f"{entry.content.hex()} does not match its content id")
            self._make("file", path, place.length, self._attributes(entry), data=data)
            total += place.length
        self.tick(len(files), total)

    def _single(self, path: bytes, entry: Entry) -> None:
        """Send a file that is empty, in pieces, or hard-linked; an existing link of its group is linked to instead."""
        if entry.link and self._linked(path, entry):
            return
        if not entry.size:
            self._make("file", path, 0, self._attributes(entry))
        else:
            self._make("open", path)
            offset = 0
            for length, content in pieces_of(self.catalog, entry):
                if content is not None:
                    data = self.catalog.blob(content)
                    if len(data) != length:
                        raise StoreError(f"the length of {content.hex()} differs from the one recorded for its file")
                    self._make("data", path, offset, length, data=data)
                offset += length
                self.tick(0, length)
            self._make("shut", path, offset, self._attributes(entry))
        if entry.link:
            self._staged_links[entry.link] = path
        self.tick(1, 0)

    def _linked(self, path: bytes, entry: Entry) -> bool:
        sources = [[False, as_text(live)] for live in self._live_links.get(entry.link, ())[:20]]
        if first := self._staged_links.get(entry.link):
            sources.append([True, as_text(first)])
        if not sources:
            return False
        self._flush()
        self.wire.send({"link": sources, "to": as_text(path)})
        said, _ = self.wire.receive()
        if said.get("linked"):
            self.tick(1, 0)
        return bool(said.get("linked"))

"""Scan a tree inside a guest: list every folder once, then read only what is new.

The guest is untrusted: its responses are used only as names, stats and bytes, and inconsistent ones close the stream.
"""

from __future__ import annotations

import json
import os
import stat
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from .. import mount_point
from ..errors import StoreError
from ..file_reader import Moved, Reader, make_row
from ..objects import NOTHING, UNKEPT, XATTRS, Row, decode_xattrs, encode_xattrs
from ..scan import Scan
from ..stat_keys import KEY
from .protocol import (
    AS_BEFORE,
    BECAME_FOLDER,
    FILL,
    FOLDER_ITEM,
    GONE,
    KEPT_OUT,
    KEY_BYTES,
    READ,
    READ_ITEM,
    REST,
    STAT,
    Closed,
    Stat,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .client import RemoteLive

_BATCH = 4096  # entries per read request
_LOOKS = 4
_MOST_ENTRIES = 20_000_000


class _Entry(NamedTuple):
    """One entry of a listed folder, with the interface of `os.DirEntry`."""

    name: str
    found: Stat

    def stat(self, *, follow_symlinks: bool = True) -> Stat:
        return self.found

    def inode(self) -> int:
        return self.found.st_ino


class _Listing(NamedTuple):
    """A folder as the guest listed it."""

    names: list[bytes]
    keys: bytes
    rest: bytes
    xattrs: bytes
    status: int

    def entries(self) -> list[_Entry]:
        stats = zip(KEY.iter_unpack(self.keys), REST.iter_unpack(self.rest), strict=True)
        names = map(os.fsdecode, self.names)
        return [_Entry(name, Stat.unpacked((*key, *rest))) for name, (key, rest) in zip(names, stats, strict=True)]


class _Wanted:
    """Replace the reader in the first pass, which only collects the paths to read.

    `bare` paths need only stat and extended attributes, `full` paths their content too.
    """

    def __init__(self):
        self.bare: dict[bytes, None] = {}
        self.full: dict[bytes, None] = {}

    def row(self, at: bytes, name: bytes, path: str, found: Stat):
        self.full[os.fsencode(path)] = None
        return make_row(name, found, NOTHING, flags=UNKEPT), found, ""

    def named_xattrs(self, at: bytes, name: bytes) -> dict:
        self.bare[_join(at, name)] = None
        return {}


class _Answers(NamedTuple):
    """Replace the reader in the second pass with the rows that were fetched, by path."""

    rows: dict[bytes, tuple[Row | None, Stat | None, str] | None]

    def row(self, at: bytes, name: bytes, path: str, found: Stat):
        answer = self.rows.get(os.fsencode(path))
        if answer is None:
            raise Moved
        if answer[0] is None:  # it exists, but could not be read
            return make_row(name, found, NOTHING, flags=UNKEPT), found, answer[2]
        return answer

    def named_xattrs(self, at: bytes, name: bytes) -> dict[int, bytes]:
        row = (self.rows.get(_join(at, name)) or (None,))[0]
        return {tag: value for tag, value in row.extras.items() if tag == XATTRS} if row else {}


class RemoteScan(Scan):
    """A scan of a tree whose folders are listed and whose files are read by the guest's server."""

    seals_early = False  # it walks twice, and knows the contents only then
    how_listed: ClassVar[dict] = {}  # what the request for a listing says beside that

    def __init__(self, sink, cache, *, live: RemoteLive, **options):
        super().__init__(sink, cache, **options)
        self._live = live

    def run(self, root: bytes) -> bytes:
        for _ in range(_LOOKS):
            self._listings, self._root, self._hides = self._list_all()
            self._wanted, self._answers = _Wanted(), None
            self._find_out(root)
            self._answers, moved = self._fetch()
            if not moved:
                break
        return super().run(root)

    def _find_out(self, root: bytes) -> None:
        """Walk once to collect the paths to read, without `inspect` and progress reports."""
        inspect, report, self.inspect, self.report = self.inspect, self.report, None, None
        try:
            self._prepare(root)
            self._visit(root, "", self._twin_root(), 0)
        finally:
            self.inspect, self.report = inspect, report

    def _list_all(self) -> tuple[dict[bytes, _Listing], Stat, dict[str, str]]:
        found, entries = {}, 0
        with self._live.talk({"do": "list"} | self.how_listed) as answers:
            for said, data in answers:
                self.check_cancelled()
                told = self._told(said, listings(data))
                found |= told
                entries += sum(len(listing.names) for listing in told.values())
                if entries > _MOST_ENTRIES:
                    raise StoreError(f"the guest listed more than {_MOST_ENTRIES} entries")
                root, hides = said.get("root"), said.get("hidden")
        return found, Stat(*map(int, root)), _mount_point(hides)

    def _told(self, said: dict, told: Iterator[tuple[bytes, _Listing]]) -> dict[bytes, _Listing]:
        """Return the folders of a frame whose head is `said`, without those that are gone."""
        return {path: listing for path, listing in told if listing.status != GONE}

    def _fetch(self) -> tuple[_Answers, bool]:
        """Read everything that the first pass collected. Also return True if an entry became a folder meanwhile."""
        fetch = _Fetch(self._live, Reader(self.sink, inspect=self.inspect, check=self._check))
        bare, full = list(self._wanted.bare), list(self._wanted.full)
        for start in range(0, len(bare), _BATCH):
            fetch.batch(bare[start : start + _BATCH], bare=True)
        for start in range(0, len(full), _BATCH):
            fetch.batch(full[start : start + _BATCH], bare=False)
        return _Answers(fetch.rows), fetch.moved

    # Access to the tree: Scan passes folder descriptors to these methods, RemoteScan passes paths.

    def _new_reader(self):
        return self._answers or self._wanted

    def _stat_root(self, root: bytes) -> Stat:
        return self._root

    def _xattrs(self, at: bytes) -> dict[int, bytes]:
        return _extras(self._listings[at].xattrs)

    def _hidden(self, at: bytes, path: str) -> str:
        return self._hides.get(path, "")

    def _list(self, at: bytes) -> tuple[list[_Entry], str, bytes]:
        listing = self._listings[at]
        if listing.status == AS_BEFORE:
            raise Closed("the guest left out a folder that has to be listed")
        # Decode one by one: invalid UTF-8 bytes of several names might form valid UTF-8 when joined.
        return listing.entries(), "\0".join(map(os.fsdecode, listing.names)), listing.keys

    def _enter(self, at: bytes, name: str) -> bytes:
        path = _join(at, os.fsencode(name))
        listing = self._listings.get(path)
        if listing is None:
            raise FileNotFoundError(path)
        if listing.status == KEPT_OUT:
            raise PermissionError(path)
        return path

    def _leave(self, at: bytes) -> None:
        pass

    def _stat(self, at: bytes, name: str) -> Stat:
        answer = self._answers.rows.get(_join(at, os.fsencode(name))) if self._answers else None
        if answer is None or answer[1] is None:
            raise FileNotFoundError(name)
        return answer[1]


def _mount_point(hides: object) -> dict[str, str]:
    """Return which entries the guest found to be its mount point; it can name no others, and older ones say nothing."""
    known = {"": mount_point.FOLDER, mount_point.FOLDER: mount_point.NAME}
    said = hides if isinstance(hides, dict) else {}
    return {path: name for path, name in known.items() if said.get(path) == name}


def _join(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name


def _extras(encoded: bytes) -> dict[int, bytes]:
    return {XATTRS: encode_xattrs(decode_xattrs(encoded))} if encoded else {}


def listings(data: bytes) -> Iterator[tuple[bytes, _Listing]]:
    """Yield (path, listing) of each folder in a frame. Raise Closed if the data is inconsistent."""
    at = 0
    while at < len(data):
        status, *lengths = FOLDER_ITEM.unpack_from(data, at)
        at += FOLDER_ITEM.size
        parts = []
        for length in lengths:
            parts.append(data[at : at + length])
            at += length
        path, joined, keys, rest, xattrs = parts
        names = joined.split(b"\0") if joined else []
        fits = at <= len(data) and len(keys) == KEY_BYTES * len(names) and len(rest) == REST.size * len(names)
        if not fits or len(set(names)) < len(names) or any(not n or n in (b".", b"..") or b"/" in n for n in names):
            raise Closed("the guest sent an invalid listing")
        yield path, _Listing(names, keys, rest, xattrs, status)


class _Fetch:
    """Read new entries from the guest into the sink and collect their rows by path."""

    def __init__(self, live: RemoteLive, reader: Reader):
        self._live, self._reader = live, reader
        self.rows: dict[bytes, tuple[Row | None, Stat | None, str] | None] = {}
        self.moved = False

    def batch(self, paths: list[bytes], *, bare: bool) -> None:
        head = {"do": "read", "bare": len(paths) if bare else 0}
        for start, end in _within_a_frame(paths):
            with self._live.talk(head, b"\0".join(paths[start:end])) as answers:
                for said, data in answers:
                    if "large" in said:
                        self._large(paths[start:end][int(said["large"])], json.loads(data), answers)
                    elif "items" in said:
                        self._items(paths[start:end], data, bare)

    def _items(self, paths: list[bytes], data: bytes, bare: bool) -> None:
        at = 0
        while at < len(data):
            status, number, *lengths = READ_ITEM.unpack_from(data, at)
            at += READ_ITEM.size
            found = None
            if status == READ:
                found = Stat.unpacked(STAT.unpack_from(data, at))
                at += STAT.size
            parts = []
            for length in lengths:
                parts.append(data[at : at + length])
                at += length
            if at > len(data):
                raise Closed("the guest sent an invalid response")
            self._item(paths[number], status, found, *parts, bare)

    def _item(self, path, status, found, content, xattrs, reason, bare) -> None:
        name = path.rpartition(b"/")[2]
        if status in (GONE, BECAME_FOLDER) or (found and stat.S_ISDIR(found.st_mode)):
            self.rows[path] = None
            self.moved |= status != GONE
        elif status == KEPT_OUT:
            self.rows[path] = None, None, reason.decode(errors="replace")[:200]
        else:
            self.rows[path] = self._row(path, name, found, content, xattrs, reason, bare)

    def _row(self, path, name, found, content, xattrs, reason, bare) -> tuple[Row, Stat, str]:
        extras = _extras(xattrs)
        if bare:
            return make_row(name, found, NOTHING, extras=extras), found, ""
        if stat.S_ISREG(found.st_mode):
            kept, flags = self._reader.whole(os.fsdecode(path), content)
            if len(content) != found.st_size and not reason:
                raise Closed("the guest sent a file of another size than announced")
            return self._reader.file(name, found, kept, flags, extras, bool(reason))
        if stat.S_ISLNK(found.st_mode):
            return self._reader.symlink(name, path, found, content, extras)
        return self._reader.special(name, found, extras)

    def _large(self, path: bytes, runs: list, answers: Iterator) -> None:
        """Store a file that is sent in pieces; when it changed meanwhile, the guest sends it again."""
        stream = _Pieces(answers)
        runs = [(int(start), int(end), bool(is_data)) for start, end, is_data in runs]
        starts = [0, *(end for _, end, _ in runs[:-1])]
        if any(run[0] != start or run[1] <= start for run, start in zip(runs, starts, strict=True)):
            raise Closed("the guest sent an inconsistent file")
        kept, flags = self._reader.pieces(os.fsdecode(path), runs, stream.read)
        said, xattrs = stream.end()
        if said.get("again"):
            return
        found = Stat(*map(int, said["stat"]))
        if found.st_size != (runs[-1][1] if runs else 0):
            raise Closed("the guest sent a file of another size than announced")
        name = path.rpartition(b"/")[2]
        self.rows[path] = self._reader.file(name, found, kept, flags, _extras(xattrs), not said["same"])


class _Pieces:
    """A reader over the data frames of one file."""

    def __init__(self, answers: Iterator[tuple[dict, bytes]]):
        self._answers = answers
        self._have = bytearray()

    def read(self, length: int, offset: int) -> bytes:
        while len(self._have) < length:
            said, data = next(self._answers)
            if "data" not in said or not data:
                raise Closed("the guest sent less of a file than announced")
            self._have += data
        data = bytes(self._have[:length])
        del self._have[:length]
        return data

    def end(self) -> tuple[dict, bytes]:
        said, data = next(self._answers)
        if "done" not in said:
            raise Closed("the guest sent more of a file than announced")
        return said, data


def _within_a_frame(paths: list[bytes]) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of the parts of a list of paths that each fit into one frame."""
    start = size = 0
    for number, path in enumerate(paths):
        size += len(path) + 1
        if size > 4 * FILL:
            yield start, number
            start, size = number, len(path) + 1
    yield start, len(paths)

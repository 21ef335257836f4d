"""A program's output on disk, as bytes with a timing index, bounded in size.

Every byte has an offset: its position in the whole output. The file `output` holds the head; later output goes to
segments `output.OFFSET`. The oldest segments are dropped, so that head and tail stay and the middle becomes a gap,
which readers get as a Gap. Each file has an index of 20-byte records (microseconds since the start, end offset,
columns, rows; the last two are 0 except in a resize). All resizes of a terminal are also in `sizes`, as the same
records, so that they survive dropped segments.
"""

import codecs
import json
import os
import struct
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

INDEX = struct.Struct("<QQHH")
INDEX_INTERVAL_US = 10_000  # writes within this time share one index record
RETRY_INTERVAL_S = 1.0  # pause after a failed write, such as on a full disk


@dataclass(frozen=True)
class Output:
    """Bytes at their offset."""

    offset: int
    data: bytes


@dataclass(frozen=True)
class Gap:
    """Bytes that were not kept: offsets `start` to `end`, exclusive."""

    start: int
    end: int


@dataclass(frozen=True)
class Resized:
    """The size of the terminal from `offset` on."""

    offset: int
    cols: int
    rows: int


class Recorder:
    """Write a recording. `total` counts every byte, kept or not; `truncated` is True if some were not kept."""

    def __init__(self, folder: Path, cap: int, seconds: float = 0.0):
        """`seconds`: how long ago the program began."""
        self.folder = Path(folder)
        self.total = 0
        self.truncated = False
        self.sizes = 0  # how many sizes the terminal has had
        self._room = cap // 2
        self._segment_size = max(4096, cap // 16)
        self._tail: list[tuple[int, int]] = []  # (start, end) of each segment after the head
        self._tail_cap = cap - self._room
        self._started = time.monotonic() - seconds
        self._last_record = -INDEX_INTERVAL_US
        self._pending: tuple[int, int] | None = None
        self._retry_at = 0.0
        self._output, self._index = self._open("")

    def write(self, data: bytes) -> None:
        """Record output; never raises. Bytes that a full disk refuses are counted and become part of a gap."""
        view = memoryview(data)
        while view:
            if self._output is None and not self._reopen():
                self.total += len(view)
                break
            if self._room == 0:
                self._next_segment()
                continue
            try:
                written = os.write(self._output, view[: self._room])
            except OSError:
                self._fail()
                continue
            self._room -= written
            self.total += written
            if self._tail:
                self._tail[-1] = (self._tail[-1][0], self.total)
            view = view[written:]
        self._note()

    def skip(self, count: int) -> None:
        """Count bytes of the output that nobody has: they become a gap. Nothing if `count` is 0."""
        if count:
            self.truncated = True
            self.total += count
            self._next_segment()

    def resized(self, cols: int, rows: int) -> None:
        self._flush_note()
        record = INDEX.pack(self._now(), self.total, cols, rows)
        self._append(record)
        try:
            with open(self.folder / "sizes", "ab", buffering=0) as file:
                file.write(record)
        except OSError:
            pass  # a full disk: viewers keep their current size
        self.sizes += 1

    def about_to_drop(self, more: int) -> int:
        """Return the offset below which writing `more` bytes now would drop output; 0 if it would drop none."""
        if not self._tail or self._room >= more:
            return 0
        when_full = self._tail[-1][1] + self._room - self._tail[0][1]
        return self._tail[0][1] if when_full >= self._tail_cap - self._segment_size else 0

    def close(self) -> None:
        """Close the files after an fsync."""
        self._flush_note()
        for fd in (self._output, self._index):
            if fd is not None:
                os.fsync(fd)
                os.close(fd)
        self._output = self._index = None

    def _now(self) -> int:
        return int((time.monotonic() - self._started) * 1e6)

    def _note(self) -> None:
        now = self._now()
        self._pending = (now, self.total)
        if now - self._last_record >= INDEX_INTERVAL_US:
            self._flush_note()

    def _flush_note(self) -> None:
        if self._pending is not None:
            self._last_record = self._pending[0]
            self._append(INDEX.pack(*self._pending, 0, 0))
            self._pending = None

    def _append(self, record: bytes) -> None:
        if self._index is not None:
            try:
                os.write(self._index, record)
            except OSError:
                pass  # only timing is lost, not output

    def _open(self, suffix: str) -> tuple[int, int]:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        index = os.open(self.folder / f"index{suffix}", flags, 0o600)
        try:
            return os.open(self.folder / f"output{suffix}", flags, 0o600), index
        except OSError:
            os.close(index)
            raise

    def _next_segment(self) -> None:
        self._flush_note()
        if self._output is not None:
            os.close(self._output)
            os.close(self._index)
            self._output = self._index = None
        # Dropping first makes room for the next segment on a full disk.
        while self._tail and self._tail[-1][1] - self._tail[0][1] >= self._tail_cap - self._segment_size:
            start, _end = self._tail.pop(0)
            self.truncated = True
            for name in ("output", "index"):
                (self.folder / f"{name}.{start:020}").unlink(missing_ok=True)
        try:
            self._output, self._index = self._open(f".{self.total:020}")
        except OSError:
            self._fail()
            return
        self._tail.append((self.total, self.total))
        self._room = self._segment_size

    def _fail(self) -> None:
        self.truncated = True
        for fd in (self._output, self._index):
            if fd is not None:
                os.close(fd)
        self._output = self._index = None
        self._retry_at = time.monotonic() + RETRY_INTERVAL_S

    def _reopen(self) -> bool:
        if time.monotonic() >= self._retry_at:
            self._next_segment()
        return self._output is not None


class Reader:
    """Read a recording from an offset, while it grows or after its end."""

    def __init__(self, folder: Path, offset: int = 0):
        self.folder = Path(folder)
        self.offset = offset
        self._fd: int | None = None
        self._start = 0  # of the open segment

    def next(self, limit: int = 1 << 16) -> Output | Gap | None:
        """Return up to `limit` bytes, or the gap that begins at the offset, or None if there is nothing more yet."""
        data = self._read(limit)
        if not data:
            following = self._find()
            if following is None:
                return None
            # The current segment may have grown before the next one was created.
            data = self._read(limit) if following != self._start else b""
            if not data:
                self._enter(following)
                if following > self.offset:
                    gap = Gap(self.offset, following)
                    self.offset = following
                    return gap
                data = self._read(limit)
        if not data:
            return None
        output = Output(self.offset, data)
        self.offset += len(data)
        return output

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _read(self, limit: int) -> bytes:
        return os.pread(self._fd, limit, self.offset - self._start) if self._fd is not None else b""

    def _find(self) -> int | None:
        """Return the start of the segment to read next: the one that holds the offset, else the first one after it."""
        found = segments(self.folder)
        for start, size in found:
            if start <= self.offset < start + size or start > self.offset:
                return start
        if found and found[-1][0] == self.offset:
            return self.offset  # created, still empty
        return None

    def _enter(self, start: int) -> None:
        self.close()
        name = f"output.{start:020}" if start else "output"
        try:
            self._fd = os.open(self.folder / name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # dropped between listing and opening: the next call finds the gap
        self._start = start


class Sizes:
    """The sizes of a terminal along its output, for a reader that starts at any offset."""

    def __init__(self, folder: Path):
        self.count = 0  # read so far
        self._path = Path(folder) / "sizes"
        self._fd: int | None = None
        self._ahead: deque[Resized] = deque()

    def due(self, offset: int) -> Resized | None:
        """Return the size at `offset` if it differs from the last one returned, else None."""
        self._read()
        found = None
        while self._ahead and self._ahead[0].offset <= offset:
            found = self._ahead.popleft()
        return found

    def room(self, offset: int) -> int:
        """Return how many bytes from `offset` on have the same size."""
        return self._ahead[0].offset - offset if self._ahead else 1 << 62

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _read(self) -> None:
        try:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC) if self._fd is None else self._fd
        except FileNotFoundError:
            return
        while data := os.pread(self._fd, 1000 * INDEX.size, self.count * INDEX.size):
            whole = data[: len(data) - len(data) % INDEX.size]
            if not whole:
                return  # the record is still being written
            for _at, offset, cols, rows in INDEX.iter_unpack(whole):
                self.count += 1
                self._ahead.append(Resized(offset, cols, rows))


def segments(folder: Path) -> list[tuple[int, int]]:
    """Return (start, size) of each kept segment, in order; [] if nothing was ever started."""
    found = []
    for entry in os.scandir(folder) if os.path.isdir(folder) else ():
        name, _, start = entry.name.partition(".")
        if name == "output" and (not start or start.isdigit()):
            try:
                found.append((int(start or 0), entry.stat().st_size))
            except FileNotFoundError:
                continue
    return sorted(found)


def asciicast(folder: Path, *, cols: int, rows: int, started_at: float, command: str = "") -> Iterator[str]:
    """Yield the recording as lines of an asciicast v2; `started_at` is a Unix time in seconds.

    A gap becomes a marker and a line of text in the output.
    """
    header = {"version": 2, "width": cols, "height": rows, "timestamp": int(started_at)}
    yield json.dumps(header | ({"command": command} if command else {})) + "\n"
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    reader = Reader(folder)
    seconds = 0.0
    for microseconds, end, width, height in _index(folder):
        seconds = microseconds / 1e6
        for kind, text in _text(reader, end, decoder):
            yield json.dumps([seconds, kind, text]) + "\n"
        if width:
            yield json.dumps([seconds, "r", f"{width}x{height}"]) + "\n"
    for kind, text in _text(reader, 1 << 63, decoder):  # output that a killed shim had not indexed yet
        yield json.dumps([seconds, kind, text]) + "\n"
    reader.close()


def gap_message(gap: Gap) -> str:
    return f"{gap.end - gap.start:,} bytes were not kept"


def _text(reader: Reader, end: int, decoder: codecs.IncrementalDecoder) -> Iterator[tuple[str, str]]:
    """Yield asciicast events (kind, text) up to an offset."""
    while reader.offset < end:
        found = reader.next(min(1 << 16, end - reader.offset))
        if found is None:
            return
        if isinstance(found, Gap):
            decoder.reset()
            yield "m", gap_message(found)
            yield "o", f"\r\n[{gap_message(found)}]\r\n"
            size = _size_at(reader.folder, found.end)
            if size:
                yield "r", f"{size.cols}x{size.rows}"
        elif text := decoder.decode(found.data):
            yield "o", text


def _size_at(folder: Path, offset: int) -> Resized | None:
    sizes = Sizes(folder)
    try:
        return sizes.due(offset)
    finally:
        sizes.close()


def _index(folder: Path) -> Iterator[tuple[int, int, int, int]]:
    for start, _size in segments(folder):
        try:
            records = (Path(folder) / (f"index.{start:020}" if start else "index")).read_bytes()
        except FileNotFoundError:
            continue
        yield from INDEX.iter_unpack(records[: len(records) - len(records) % INDEX.size])

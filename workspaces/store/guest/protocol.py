"""The wire protocol between the host and the server in a guest: frames of a JSON head and a body of bytes.

The guest is untrusted: lengths are bounded, and the formats hold plain data only.
Runs inside guests too, so it uses the standard library only.
"""

import json
import os
import select
import struct
import time
from collections.abc import Callable
from typing import NamedTuple

from ..folded import fold, turns, unfold

VERSION = 1
MAX_BODY = 8 << 20  # maximum bytes of a frame's body; a longer one is refused
FILL = 1 << 20  # bytes; senders fill a frame's body to about this size
_LENGTHS = struct.Struct(">II")
_MAX_HEAD = 4 << 20
WRITTEN = 32 << 10  # bytes written at once to a peer that may stop reading
ASKED_S = 2.0  # how long a peer may be silent until it is asked for whether it is served
LAST_S = 0.5  # for what an ended server sent before
NO_FRAME = "an invalid frame was received"

# ino, size, mtime, ctime (both folded), mode, uid, gid, links; bit 0 whether on another device, above it turns of mtime
STAT = struct.Struct("<QQqqIIIIb")
TIMES = unfold(-(1 << 63), -64), unfold((1 << 63) - 1, 63)  # the first and last that it holds
KEY_BYTES = 32  # the first four of them are the key of the stat cache
FOLDER_ITEM = struct.Struct("<BIIIII")  # status; lengths of path, names, keys, the rest of each stat, attributes
READ_ITEM = struct.Struct("<BIIII")  # status, number in the request; lengths of content, attributes, reason
REST = struct.Struct("<IIIIb")

# The status of an entry that was to be listed or read.
READ, KEPT_OUT, GONE, BECAME_FOLDER = range(4)
AS_BEFORE = 4  # a folder whose own entries are those of the last snapshot


class Closed(OSError):
    """The peer has disconnected, timed out or broken the protocol."""


class Stat(NamedTuple):
    """The transmitted subset of `os.stat_result`, with its field names. `st_dev` is 0 on the root's device, else 1."""

    st_ino: int
    st_size: int
    st_mtime_ns: int
    st_ctime_ns: int
    st_mode: int
    st_uid: int
    st_gid: int
    st_nlink: int
    st_dev: int

    @classmethod
    def of(cls, found: os.stat_result, device: int) -> "Stat":
        return cls(
            found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns,
            found.st_mode, found.st_uid, found.st_gid, min(found.st_nlink, 2**32 - 1), found.st_dev != device,
        )  # fmt: skip

    def pack(self) -> bytes:
        """Return it as sent. A time beyond `TIMES`, which no disk of a guest holds, is cut to its ends."""
        mtime_ns = max(TIMES[0], min(TIMES[1], self.st_mtime_ns))
        times = fold(mtime_ns), fold(self.st_ctime_ns)
        return STAT.pack(*self[:2], *times, *self[4:8], self.st_dev | turns(mtime_ns) << 1)

    @classmethod
    def unpacked(cls, fields: tuple) -> "Stat":
        """Return the stat of the fields that `pack` has packed."""
        ino, size, mtime_ns, *rest, last = fields
        return cls(ino, size, unfold(mtime_ns, last >> 1), *rest, last & 1)


def waits_for(fd: int, seconds: float, event: int = select.POLLIN) -> bool:
    """Return True if `fd` becomes readable, or takes data with POLLOUT, within `seconds`."""
    poll = select.poll()  # select() is limited to descriptors up to 1,023
    poll.register(fd, event)
    return bool(poll.poll(seconds * 1000))


class Wire:
    """Send and receive frames over a pair of descriptors, which may be the same.

    Raise Closed when the peer disconnects, sends an invalid frame, or is silent for `timeout_s` seconds. A port of a
    guest stays open when the server behind it ends: `is_served` says whether it runs, and is asked while none answers.
    """

    def __init__(
        self,
        reading: int,
        writing: int,
        timeout_s: float | None = None,
        is_served: Callable[[], bool] | None = None,
    ):
        self.reading, self.writing, self._timeout_s = reading, writing, timeout_s
        self._is_served = is_served or (lambda: True)

    def send(self, head: dict, body: bytes | bytearray | memoryview = b"") -> None:
        text = json.dumps(head, separators=(",", ":")).encode()
        self._write(_LENGTHS.pack(len(text), len(body)) + text)
        if len(body):
            self._write(body)

    def receive(self) -> tuple[dict, bytes]:
        """Return (head, body) of the next frame."""
        self._wait(self._timeout_s)
        # A frame that has begun must be complete after `timeout_s` again: single bytes must not keep the host waiting.
        until = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        head_length, body_length = _LENGTHS.unpack(self._read(_LENGTHS.size, until))
        if head_length > _MAX_HEAD or body_length > MAX_BODY:
            raise Closed(NO_FRAME)
        try:
            head = json.loads(self._read(head_length, until))
        except (ValueError, RecursionError):
            raise Closed(NO_FRAME) from None
        if not isinstance(head, dict):
            raise Closed(NO_FRAME)
        return head, self._read(body_length, until) if body_length else b""

    def _write(self, data) -> None:
        view = memoryview(data)
        try:
            while view:
                self._wait(self._timeout_s, select.POLLOUT)
                # Of what is left, no more than a socket that takes data has room for, else the write would wait.
                piece = view if self._timeout_s is None else view[:WRITTEN]
                view = view[os.write(self.writing, piece) :]
        except BrokenPipeError as error:
            raise Closed("the connection was closed") from error

    def _read(self, length: int, until: float | None) -> bytes:
        parts, have = [], 0
        while have < length or not parts:
            data = self._some(min(length - have, FILL), until)
            if not data:
                raise Closed("the connection was closed")
            parts.append(data)
            have += len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _some(self, length: int, until: float | None) -> bytes:
        if until is not None:
            self._wait(max(0.0, until - time.monotonic()))
        try:
            return os.read(self.reading, length)
        except ConnectionResetError as error:
            raise Closed("the connection was closed") from error

    def _wait(self, seconds: float | None, event: int = select.POLLIN) -> None:
        if seconds is None:
            return
        fd, until = self.reading if event == select.POLLIN else self.writing, time.monotonic() + seconds
        while not waits_for(fd, min(ASKED_S, max(0.0, until - time.monotonic())), event):
            if time.monotonic() >= until:
                raise Closed(f"no data was received for {self._timeout_s:.0f} seconds")
            if not self._is_served() and not waits_for(fd, LAST_S, event):
                raise Closed("its file server ended")

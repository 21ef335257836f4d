"""How a host and the server beside a guest's tree speak: frames of a JSON head and a body of bytes.

The host does not trust the guest: lengths are bounded, and nothing is unpacked that could be more than data.
Runs inside guests too, so it needs nothing but Python.
"""

import json
import os
import select
import struct
from typing import NamedTuple

VERSION = 1
MOST = 8 << 20  # bytes of one frame's body; a longer one is refused
FILL = 1 << 20  # about as much is put into one
_LENGTHS = struct.Struct(">II")
_MOST_HEAD = 4 << 20

STAT = struct.Struct("<QQqqIIIIB")  # ino, size, mtime, ctime, mode, uid, gid, links, whether on another device
KEY_BYTES = 32  # the first four of them are the key of the stat cache
FOLDER_ITEM = struct.Struct("<BIIIII")  # status; lengths of path, names, keys, the rest of each stat, attributes
READ_ITEM = struct.Struct("<BIIII")  # status, number in the request; lengths of content, attributes, reason
REST = struct.Struct("<IIIIB")

# What became of an entry that was to be listed or read.
READ, KEPT_OUT, GONE, BECAME_FOLDER = range(4)


class Closed(OSError):
    """The other side has gone."""


class Stat(NamedTuple):
    """The part of a stat that travels, under the names that `os` gives it. `st_dev` is 0 on the root's own device."""

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
        return STAT.pack(*self)


def waits_for(fd: int, seconds: float) -> bool:
    """Whether there is something to read within so many seconds."""
    poll = select.poll()  # select itself knows no descriptors beyond 1,023
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


class Wire:
    """Frames over a pair of descriptors (which may be one and the same); Closed after `patience` seconds of silence."""

    def __init__(self, reading: int, writing: int, patience: float | None = None):
        self.reading, self.writing, self._patience = reading, writing, patience

    def send(self, head: dict, body: bytes | bytearray | memoryview = b"") -> None:
        text = json.dumps(head, separators=(",", ":")).encode()
        self._write(_LENGTHS.pack(len(text), len(body)) + text)
        if len(body):
            self._write(body)

    def receive(self) -> tuple[dict, bytes]:
        head_length, body_length = _LENGTHS.unpack(self._read(_LENGTHS.size))
        if head_length > _MOST_HEAD or body_length > MOST:
            raise Closed("the other side sends what is no frame")
        head = json.loads(self._read(head_length))
        if not isinstance(head, dict):
            raise Closed("the other side sends what is no frame")
        return head, self._read(body_length) if body_length else b""

    def _write(self, data) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self.writing, view) :]
        except BrokenPipeError as error:
            raise Closed("the other side has gone") from error

    def _read(self, length: int) -> bytes:
        data = self._some(length)
        if len(data) == length:
            return data
        parts, have = [data], len(data)
        while have < length:
            if not data:
                raise Closed("the other side has gone")
            data = self._some(min(length - have, FILL))
            parts.append(data)
            have += len(data)
        return b"".join(parts)

    def _some(self, length: int) -> bytes:
        if self._patience is not None and not waits_for(self.reading, self._patience):
            raise Closed(f"the other side has said nothing for {self._patience:.0f} seconds")
        try:
            return os.read(self.reading, length)
        except ConnectionResetError as error:
            raise Closed("the other side has gone") from error

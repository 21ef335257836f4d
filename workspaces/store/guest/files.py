"""Single entries of a guest's folder, through the server in the guest; the local counterpart is `store/files.py`."""

import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from ..errors import StoreError
from ..files import Found
from ..safe_open import split_path
from .protocol import FILL

Hold = Callable[[], AbstractContextManager["RemoteFiles"]]


@contextmanager
def open_folder(live, folder: str, hold: Hold) -> Iterator["RemoteFiles"]:
    """Yield access to the entries of a folder over the stream of `live`."""
    files = RemoteFiles(live, folder, hold)
    try:
        yield files
    finally:
        files.held = False


class RemoteFiles:
    """The entries below a folder of a guest, over an open stream to its server. `hold` opens another stream."""

    def __init__(self, live, folder: str, hold: Hold):
        self._live, self._folder, self._hold = live, folder, hold
        self.held = True

    def _ask(self, verb: str, path: bytes, **fields) -> dict:
        return self._live.ask(self._head(verb, path, **fields))

    def _head(self, verb: str, path: bytes, **fields) -> dict:
        split_path(path)  # raise BadPath on the host, not in the guest
        return {"do": "file", "verb": verb, "in": self._folder, "path": os.fsdecode(path), **fields}

    def stat(self, path: bytes) -> Found:
        return _checked_status(self._ask("stat", path)["found"])

    def entries(self, path: bytes) -> Iterator[tuple[bytes, Found]]:
        with self._live.talk(self._head("entries", path)) as answers:
            for _said, data in answers:
                for name, *found in json.loads(data) if data else ():
                    yield _name(name), _checked_status(found)

    def readlink(self, path: bytes) -> bytes:
        return os.fsencode(self._ask("readlink", path)["target"])

    def open(self, path: bytes) -> "RemoteFile":
        return RemoteFile(self, self._hold, path)

    def read(self, path: bytes, offset: int, length: int) -> tuple[Found, bytes]:
        """Return (stat, bytes) of a part of a file, both from one request; at most FILL bytes."""
        found, data = None, b""
        with self._live.talk(self._head("read", path, offset=offset, length=min(length, FILL))) as answers:
            for said, body in answers:
                found, data = _checked_status(said["found"]), body
        return found, data[:length]

    def write(self, path: bytes, pieces: Iterable[bytes], *, mode: int | None, owner: int | None) -> bool:
        """Like LocalFiles.write, but `owner` is ignored: in a guest, new entries belong to the owner of the folder."""
        self._live.wire.send(self._head("write", path, mode=mode))
        for piece in pieces:
            for at in range(0, len(piece), FILL):
                self._live.wire.send({"data": True}, piece[at : at + FILL])
        self._live.wire.send({"data": False})
        return bool(self._live.answer()["new"])

    def delete(self, path: bytes) -> None:
        self._ask("delete", path)

    def sockets(self) -> list[str]:
        """Return the contents of the guest's /proc/net/tcp and tcp6."""
        return [str(table) for table in self._ask("sockets", b"")["sockets"]]

    def run_read_only(self, argv: list[str], seconds: float, take: Callable[[bytes], object]) -> dict:
        """Run a read-only program in the guest, whose standard output goes to `take`; return {late, status, said}."""
        with self._live.talk({"do": "run_read_only", "argv": argv, "seconds": seconds}) as answers:
            for said, piece in answers:
                take(piece)
                ended = said
        return ended


class RemoteFile:
    """A file of a guest, read piece by piece, so that a slow reader does not block access to other files."""

    def __init__(self, files: RemoteFiles, hold: Hold, path: bytes):
        self._files, self._hold, self._path = files, hold, path
        self.info, self._first = files.read(path, 0, FILL)

    def pread(self, length: int, offset: int) -> bytes:
        if offset < len(self._first):
            return self._first[offset : offset + length]
        if offset >= self.info.st_size:
            return b""
        with nullcontext(self._files) if self._files.held else self._hold() as files:
            found, data = files.read(self._path, offset, length)
        if found.st_ino != self.info.st_ino:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return data

    def close(self) -> None:
        pass


def _checked_status(fields: list) -> Found:
    if len(fields) != len(Found._fields) or not all(isinstance(field, int) for field in fields):
        raise StoreError("the guest sent an invalid file status")
    return Found(*fields)


def _name(text: str) -> bytes:
    name = os.fsencode(text)
    if not name or name in (b".", b"..") or b"/" in name or b"\0" in name:
        raise StoreError("the guest sent an invalid file name")
    return name

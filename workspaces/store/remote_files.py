"""Single entries of a guest's folder, asked of the server beside its tree; as `files.py` for a folder here."""

import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from .beneath import split_path
from .errors import StoreError
from .files import Found
from .wire import FILL

Hold = Callable[[], AbstractContextManager["RemoteFiles"]]


@contextmanager
def held(live, folder: str, hold: Hold) -> Iterator["RemoteFiles"]:
    """The entries of a folder for as long as `live` can be spoken with."""
    files = RemoteFiles(live, folder, hold)
    try:
        yield files
    finally:
        files.held = False


class RemoteFiles:
    """The entries below a folder of a guest, while a stream to its server is held. `hold` gives another such time."""

    def __init__(self, live, folder: str, hold: Hold):
        self._live, self._folder, self._hold = live, folder, hold
        self.held = True

    def _ask(self, verb: str, path: bytes, **fields) -> dict:
        return self._live.ask(self._head(verb, path, **fields))

    def _head(self, verb: str, path: bytes, **fields) -> dict:
        split_path(path)  # BadPath here and not there
        return {"do": "file", "verb": verb, "in": self._folder, "path": os.fsdecode(path), **fields}

    def stat(self, path: bytes) -> Found:
        return _found(self._ask("stat", path)["found"])

    def entries(self, path: bytes) -> Iterator[tuple[bytes, Found]]:
        with self._live.talk(self._head("entries", path)) as answers:
            for _said, data in answers:
                for name, *found in json.loads(data) if data else ():
                    yield _name(name), _found(found)

    def readlink(self, path: bytes) -> bytes:
        return os.fsencode(self._ask("readlink", path)["target"])

    def open(self, path: bytes) -> "RemoteFile":
        return RemoteFile(self, self._hold, path)

    def read(self, path: bytes, offset: int, length: int) -> tuple[Found, bytes]:
        """Return (stat, bytes) of a part of a file, as they belong together."""
        found, data = None, b""
        with self._live.talk(self._head("read", path, offset=offset, length=min(length, FILL))) as answers:
            for said, body in answers:
                found, data = _found(said["found"]), body
        return found, data[:length]

    def write(self, path: bytes, pieces: Iterable[bytes], *, mode: int | None, owner: int | None) -> bool:
        """As LocalFiles.write; in a guest new entries belong to whoever owns the tree, so `owner` does not count."""
        self._live.wire.send(self._head("write", path, mode=mode))
        for piece in pieces:
            for at in range(0, len(piece), FILL):
                self._live.wire.send({"data": True}, piece[at : at + FILL])
        self._live.wire.send({"data": False})
        return bool(self._live.answer()["new"])

    def delete(self, path: bytes) -> None:
        self._ask("delete", path)

    def sockets(self) -> list[str]:
        """The tables of sockets as the kernel there lists them."""
        return [str(table) for table in self._ask("sockets", b"")["sockets"]]

    def look(self, argv: list[str], seconds: float) -> bytes | None:
        """What a program prints that only looks at the tree; None when its time was too short."""
        with self._live.talk({"do": "look", "argv": argv, "seconds": seconds}) as answers:
            *_, (said, data) = answers
        return None if said["late"] else data


class RemoteFile:
    """A file of a guest. It is asked for piece by piece, so that a slow reader keeps nobody from the guest's files."""

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


def _found(fields: list) -> Found:
    if len(fields) != len(Found._fields) or not all(isinstance(field, int) for field in fields):
        raise StoreError("the guest says of a file what makes no sense")
    return Found(*fields)


def _name(text: str) -> bytes:
    name = os.fsencode(text)
    if not name or name in (b".", b"..") or b"/" in name or b"\0" in name:
        raise StoreError("the guest lists what cannot be")
    return name

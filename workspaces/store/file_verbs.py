"""What a host asks the server beside a guest's tree about single entries; the other end is `remote_files.py`."""

import json
import os
from collections.abc import Iterator
from contextlib import closing

from .files import Found, LocalFiles
from .wire import FILL, Closed, Wire

_ENTRIES = 4096  # of a folder in one frame


class FileVerbs:
    """`folders` are the open folders that can be asked about, by name; what is made belongs to their owner."""

    def __init__(self, wire: Wire, folders: dict[str, int]):
        self.wire, self.folders = wire, folders

    def answer(self, head: dict, body: bytes) -> None:
        verb = getattr(self, f"_{head['verb']}")
        verb(LocalFiles(self.folders[head["in"]]), os.fsencode(head["path"]), head)

    def _stat(self, files: LocalFiles, path: bytes, head: dict) -> None:
        self.wire.send({"end": True, "found": files.stat(path)})

    def _entries(self, files: LocalFiles, path: bytes, head: dict) -> None:
        part = []
        for name, found in files.entries(path):
            part.append([os.fsdecode(name), *found])
            if len(part) == _ENTRIES:
                self.wire.send({"entries": True}, json.dumps(part).encode())
                part.clear()
        self.wire.send({"end": True}, json.dumps(part).encode())

    def _sockets(self, files: LocalFiles, path: bytes, head: dict) -> None:
        """What the kernel lists of the network that programs are in."""
        listed = []
        for name in ("tcp", "tcp6"):
            try:
                with open(f"/proc/net/{name}") as table:
                    listed.append(table.read(FILL))
            except OSError:
                continue  # there is no IPv6
        self.wire.send({"end": True, "sockets": listed})

    def _readlink(self, files: LocalFiles, path: bytes, head: dict) -> None:
        self.wire.send({"end": True, "target": os.fsdecode(files.readlink(path))})

    def _read(self, files: LocalFiles, path: bytes, head: dict) -> None:
        with closing(files.open(path)) as file:
            data = file.pread(min(head["length"], FILL), head["offset"]) if file.is_regular else b""
            self.wire.send({"end": True, "found": Found(*file.info)}, data)

    def _write(self, files: LocalFiles, path: bytes, head: dict) -> None:
        owner = os.fstat(files.root).st_uid
        pieces = self._pieces()
        try:
            new = files.write(path, pieces, mode=head["mode"], owner=owner)
        except Closed:
            raise
        except OSError:
            for _ in pieces:  # the host hears the answer only when it has said everything
                pass
            raise
        self.wire.send({"end": True, "new": new})

    def _pieces(self) -> Iterator[bytes]:
        while True:
            head, body = self.wire.receive()
            if not head["data"]:
                return
            yield body

    def _delete(self, files: LocalFiles, path: bytes, head: dict) -> None:
        files.delete(path)
        self.wire.send({"end": True})

"""The guest server's requests for single entries; the host's side is `guest/files.py`."""

import json
import os
from collections.abc import Iterator
from contextlib import closing

from ..files import Found, LocalFiles
from ..mount_point import FilesOfTree
from .protocol import FILL, Closed, Wire

_ENTRIES = 4096  # of a folder per frame


class FileVerbs:
    """Handle `file` requests. `folders` maps names to open folders; new entries belong to the folder's owner."""

    def __init__(self, wire: Wire, folders: dict[str, int]):
        self.wire, self.folders = wire, folders

    def answer(self, head: dict, body: bytes) -> None:
        verb = getattr(self, f"_{head['verb']}")
        kind = FilesOfTree if head["in"] == "tree" else LocalFiles
        verb(kind(self.folders[head["in"]]), os.fsencode(head["path"]), head)

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
        """Send the kernel's TCP socket tables of the network namespace that programs use, which is the server's too."""
        listed = []
        for name in ("tcp", "tcp6"):
            try:
                with open(f"/proc/net/{name}") as table:
                    listed.append(table.read(FILL))
            except OSError:
                continue  # no IPv6
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
            for _ in pieces:  # drain the request: the host reads no response before it has sent everything
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

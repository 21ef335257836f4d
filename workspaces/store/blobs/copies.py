"""Copies of a bucket's packs and index segments on this host, up to a number of bytes; the least read go first."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from . import Read

if TYPE_CHECKING:
    from collections.abc import Container


class Copies:
    """A folder with `head`, `packs/NAME`, `index/NAME`, `staged/` and `stat/`; any of it may be deleted at any time."""

    def __init__(self, folder: Path, most_bytes: int):
        self.folder, self.most_bytes = folder, most_bytes

    def path(self, kind: str, name: str) -> Path:
        return self.folder / kind / name

    def find(self, kind: str, name: str) -> Path | None:
        path = self.path(kind, name)
        with suppress(FileNotFoundError):
            os.utime(path)
            return path
        return None

    def put(self, kind: str, name: str, data: bytes) -> Path:
        staged = self.staged()
        with open(staged, "xb", opener=private) as file:
            file.write(data)
        return self.keep(kind, name, staged)

    def staged(self) -> Path:
        """Return the path of a new file, which `keep` takes."""
        path = self.path("staged", os.urandom(16).hex())
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    def keep(self, kind: str, name: str, staged: Path) -> Path:
        path = self.path(kind, name)
        path.parent.mkdir(mode=0o700, exist_ok=True)
        os.rename(staged, path)
        if kind == "packs":
            self._make_room()
        return path

    def head(self) -> Read | None:
        try:
            tag, _, data = (self.folder / "head").read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        return Read(data, tag.decode())

    def keep_head(self, read: Read) -> None:
        staged = self.staged()
        with open(staged, "xb", opener=private) as file:
            file.write(read.tag.encode() + b"\n" + read.data)
        os.rename(staged, self.folder / "head")

    def forget(self, kind: str, named: Container[str]) -> None:
        """Remove all copies of a kind but those of these names."""
        for found in _listed(self.folder / kind):
            if found.name not in named:
                with suppress(FileNotFoundError):
                    os.unlink(found.path)

    def _make_room(self) -> None:
        found = []
        for entry in _listed(self.folder / "packs"):
            with suppress(FileNotFoundError):
                status = entry.stat()
                found.append((status.st_mtime, status.st_size, entry.path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found)[:-1]:
            if total <= self.most_bytes:
                return
            with suppress(FileNotFoundError):
                os.unlink(path)
            total -= size


def _listed(folder: Path) -> list[os.DirEntry]:
    try:
        with os.scandir(folder) as found:
            return list(found)
    except FileNotFoundError:
        return []


def private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)

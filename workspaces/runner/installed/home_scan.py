"""Look at a home: how many files and bytes its folders have, and which packages. No symlink is followed."""

import hashlib
import os
import stat
import time
from dataclasses import dataclass, field

from workspaces.provisioning.install_places import LISTS, PLACES
from workspaces.runner.installed import packages
from workspaces.store.files import read_whole

MAX_ENTRIES = 400_000
MAX_SECONDS = 30.0
MAX_DEPTH = 100
MAX_PACKAGES = 300  # of one folder that are named
MAX_FOLDERS = 60  # outside of the places that are named
_OF_LIST = {path: folder for folder, paths in LISTS.items() for path in paths}
_PLACES = frozenset(PLACES)
# What programs write beside packages when they run; it does not make two homes differ.
_PASSING = "__pycache__"


@dataclass
class Folder:
    """What one folder of a home has. `mark` is equal for equal names, sizes and times of files."""

    path: str
    files: int = 0
    bytes: int = 0
    packages: list = field(default_factory=list)
    more_packages: int = 0
    lines: list = field(default_factory=list)

    def add(self, found: list[dict]):
        room = max(0, MAX_PACKAGES - len(self.packages))
        self.packages += found[:room]
        self.more_packages += len(found[room:])

    def as_json(self) -> dict:
        names = ("path", "files", "bytes", "more_packages")
        told = {name: getattr(self, name) for name in names}
        self.packages.sort(key=lambda each: (each["kind"] == "program", each["kind"], each["name"]))
        mark = hashlib.sha256("\n".join(sorted(self.lines)).encode()).hexdigest()
        return told | {"packages": self.packages, "mark": mark, "can_be_kept": self.path in _PLACES}


class _Walk:
    def __init__(self, files):
        self.files = files
        self.folders: dict[str, Folder] = {}
        self.entries, self.complete = 0, True
        self.deadline = time.monotonic() + MAX_SECONDS

    def run(self):
        todo = [(b"", "", 0)]
        while todo:
            at, place, depth = todo.pop()
            for name, info in self._entries(at):
                self.entries += 1
                if self.entries > MAX_ENTRIES or time.monotonic() > self.deadline or depth > MAX_DEPTH:
                    self.complete = False
                    return
                path = at + b"/" + name if at else name
                shown = path.decode("utf-8", "backslashreplace")
                inside = place or (shown if shown in _PLACES else "")
                if stat.S_ISDIR(info.st_mode):
                    todo.append((path, inside, depth + 1))
                    if inside in _PLACES and (package := packages.of_folder(shown)):
                        self._folder(inside).add([package])
                else:
                    self._count(path, shown, inside or _OF_LIST.get(shown, ""), info)

    def _entries(self, folder: bytes) -> list:
        try:
            return sorted(self.files.entries(folder))
        except OSError:
            return []

    def _folder(self, path: str) -> Folder:
        return self.folders.setdefault(path, Folder(path))

    def _count(self, path: bytes, shown: str, place: str, info):
        top, below, _ = shown.partition("/")
        is_regular = stat.S_ISREG(info.st_mode)
        size, when = (info.st_size, info.st_mtime_ns) if is_regular else (0, 0)
        found = self._folder(place or (top + below))
        found.files += 1
        found.bytes += size
        if not place:
            return
        if _PASSING not in shown:
            found.lines.append(f"{shown}\0{stat.S_IFMT(info.st_mode)}\0{size}\0{when}")
        found.add(packages.of_file(shown, lambda: self._read(path) if is_regular else b""))

    def _read(self, path: bytes) -> bytes:
        try:
            return read_whole(self.files, path, packages.MAX_LIST_BYTES)
        except (OSError, ValueError):
            return b""


def scan_home(files, only=None) -> dict:
    """Return {folders: [Folder as JSON], complete}; `only`: the places that are looked at, by default all of the home.

    `complete` is False beyond a bound of entries or time; the counts are minimums then.
    """
    walk = _Walk(files)
    walk.run()
    found = [folder for folder in walk.folders.values() if only is None or folder.path in only]
    found.sort(key=lambda folder: (folder.path not in _PLACES, folder.path))
    places = sum(folder.path in _PLACES for folder in found)
    shown = found[: places + MAX_FOLDERS]
    return {
        "folders": [folder.as_json() for folder in shown],
        "complete": walk.complete and len(shown) == len(found),
    }


def hidden_by(folders: list[dict], system: tuple[str, ...]) -> list[str]:
    """Return the names of programs that come before one of the system's with the same name."""
    names = {each["name"] for folder in folders for each in folder["packages"] if each["kind"] == "program"}
    return sorted(name for name in names if any(os.path.lexists(os.path.join(at, name)) for at in system))

"""Try out where a tree is whether a source of events tells of writers as the rules of watching need it to.

Runs inside guests, so it uses the standard library only. Another process writes, since a source leaves out its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

_WRITER = """
import mmap, os, sys
os.chdir(sys.argv[1])
def at_a_name_outside():
    with open("outside/name", "ab") as file: file.write(b"1")
def back_in_time():
    os.utime("tree/file", (1, 1))
def mapped():
    global mapping
    with open("tree/file", "r+b") as file: mapping = mmap.mmap(file.fileno(), 0)
def unmapped():
    mapping[0] = 7
    mapping.close()
steps = {
    "a write by another name of the file": at_a_name_outside,
    "a changed mode": lambda: os.chmod("tree/file", 0o600),
    "times that were set back": back_in_time,
    "a file that was cut": lambda: os.truncate("tree/file", 3),
    "a new file": lambda: open("tree/folder/new", "x").close(),
    "a renamed folder": lambda: os.rename("tree/folder", "tree/another"),
    "a mapping": mapped,
    "the end of a mapping": unmapped,
}
for line in sys.stdin:
    steps[line.strip()]()
    print("done", flush=True)
"""
_CHANGES = {  # what is done, and which entry's event is to come
    "a write by another name of the file": "file",
    "a changed mode": "file",
    "times that were set back": "file",
    "a file that was cut": "file",
    "a new file": "folder",
    "a renamed folder": "",
}
LEASES = "files that are open for writing"


class _Heard:
    """Takes the events as a `Watched` does."""

    def __init__(self):
        self.changed: set[int] = set()
        self.opened: dict[int, bytes] = {}
        self.lost = ""

    def note_changes(self, inodes: set[int]) -> None:
        self.changed |= inodes

    def knows_any(self, inodes: set[int]) -> bool:
        return True

    def note_opens(self, opened: dict[int, bytes]) -> None:
        self.opened.update(opened)

    def ask_ahead(self, kernel) -> bool:
        return False

    def places_of(self, inode: int) -> tuple[str, ...]:
        return ("",)

    def lose(self, why: str) -> None:
        self.lost = why


def missed_writer(way: type, folder: str) -> str:
    """Return what a source of events of this kind does not tell of in a folder; "" if it tells of everything."""
    with tempfile.TemporaryDirectory(prefix=".handrail-canary-", dir=folder) as place:
        tree = os.path.join(place, "tree")
        os.makedirs(os.path.join(tree, "folder"))
        os.mkdir(os.path.join(place, "outside"))
        with open(os.path.join(tree, "file"), "wb") as file:
            file.write(bytes(100))
        os.link(os.path.join(tree, "file"), os.path.join(place, "outside", "name"))
        root = os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            kernel = way(root)
            try:
                return _try_out(kernel, tree, place)
            finally:
                kernel.close()
        finally:
            os.close(root)


def _try_out(kernel, tree: str, place: str) -> str:
    heard, inodes = _Heard(), {}
    kernel.add(heard)
    for name in ("", "file", "folder"):
        fd = os.open(os.path.join(tree, name), os.O_PATH | os.O_CLOEXEC)
        try:
            inodes[name] = os.fstat(fd).st_ino
            kernel.mark(fd, opens=name == "file")
        finally:
            os.close(fd)

    def do(what: str) -> None:
        heard.changed.clear()
        heard.opened.clear()
        writer.stdin.write(f"{what}\n")
        writer.stdin.flush()
        writer.stdout.readline()
        kernel.collect_opens()
        kernel.collect_changes()

    command = [sys.executable, "-I", "-S", "-c", _WRITER, place]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        for what, name in _CHANGES.items():
            do(what)
            if inodes[name] not in heard.changed or heard.lost:
                return heard.lost or what
        do("a mapping")
        handle = heard.opened.get(inodes["file"])
        if handle is None:
            return "files that are opened"
        if not kernel.has_writer(handle, sync=True):
            return LEASES
        do("the end of a mapping")
        if kernel.has_writer(handle, sync=False):
            return f"the end of {LEASES}"
        writer.stdin.close()
    return heard.lost


__all__ = ["missed_writer"]

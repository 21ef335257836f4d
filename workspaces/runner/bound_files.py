"""Hash and read the files that a command runs, through the tree's own symlinks, for the approval card.

The tree and the agent's home are read beneath their folders. In a connected folder programs run as the user, so files
elsewhere on this host are read too, except system folders, which only its administrator changes.
"""

import hashlib
import itertools
import os
import stat
import time
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass

from workspaces.drivers.base import DriverError
from workspaces.drivers.folder.driver import user_env
from workspaces.store import StoreError, safe_open
from workspaces.store.files import Opened

MAX_SYMLINKS = 40  # the kernel's limit
MAX_FILE = 64 << 20  # bytes of one file that are hashed
MAX_CONTENT = 128 << 10  # bytes of one file that are kept for the card
MAX_ALL_CONTENT = 512 << 10
PIECE = 1 << 20
TREE, HOME = b"/workspace", b"/home/agent"
AGENT_PATH = (HOME + b"/.local/bin",)  # first in every PATH
SYSTEM = (b"/usr", b"/bin", b"/sbin", b"/lib", b"/lib64", b"/etc", b"/nix", b"/snap", b"/proc", b"/sys", b"/dev")
FILE, LARGE, UNREADABLE, OUTSIDE = "file", "large", "unreadable", "outside"


class TooSlow(Exception):
    """The time limit was reached before everything was read."""


@dataclass(frozen=True)
class Place:
    """A location: the `path` beneath `files`, or `files` None outside what is read; `shown` is the absolute path."""

    files: object
    path: bytes
    shown: bytes


class HostFiles:
    """Files anywhere on this host, limited to those that the user of a connected folder may read."""

    def __init__(self, uid: int):
        self.uid = uid

    def readlink(self, path: bytes) -> bytes:
        return os.readlink(b"/" + path)

    def open(self, path: bytes):
        fd = os.open(b"/" + path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        info = os.fstat(fd)
        if os.getuid() == 0 and self.uid != 0 and info.st_uid != self.uid and not info.st_mode & stat.S_IROTH:
            os.close(fd)
            raise PermissionError(path)
        return Opened(fd)


class Contents:
    """One pass over files of a workspace, bounded by `seconds`."""

    def __init__(self, mounts: list[tuple[bytes, object]], search: tuple, home: bytes, seconds: float):
        self.mounts, self.search, self.home = mounts, search, home
        self.until, self.left = time.monotonic() + seconds, MAX_ALL_CONTENT
        self.targets: dict[bytes, bytes | None] = {}
        self.of_system: dict[bytes, bytes] = {}  # {path: the file in a system folder that it leads to}

    def describe(self, path: bytes, kind: str, *, keeps: bool) -> dict | None:
        """Return {"path", "kind", "state", "sha256", "size", "content"?} of a file, or None if it does not exist.

        A relative path is looked up in the folders of `search`. Raise TooSlow at the time limit.
        """
        if time.monotonic() > self.until:
            raise TooSlow
        if path.startswith(b"~/"):
            path = self.home + path[1:]
        if not path.startswith(b"/"):
            found = (self._state_of(folder + b"/" + path, keeps=keeps) for folder in self.search)
            told = next((one for one in found if one is not None), None)
        else:
            told = self._state_of(path, keeps=keeps)
        return told and told | {"kind": kind}

    def _state_of(self, path: bytes, *, keeps: bool) -> dict | None:
        told = {"path": path, "sha256": "", "size": None}
        try:
            place = self._resolve(path)
            if place is None:
                return None
            if place.files is None:
                return told | {"state": OUTSIDE}
            with closing(place.files.open(place.path)) as file:
                return told | self._read(file, keeps=keeps) if stat.S_ISREG(file.info.st_mode) else None
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except (OSError, StoreError, DriverError, safe_open.BadPath):
            return told | {"state": UNREADABLE}

    def is_file(self, path: bytes) -> bool:
        """Return whether there is a regular file, or one that cannot be told; none of the system's folders counts."""
        if time.monotonic() > self.until:
            raise TooSlow
        try:
            place = self._resolve(path)
            if place is None or place.files is None:
                return place is not None
            with closing(place.files.open(place.path)) as file:
                return stat.S_ISREG(file.info.st_mode)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return False
        except (OSError, StoreError, DriverError, safe_open.BadPath):
            return True

    def text(self, path: bytes, limit: int, within: tuple) -> bytes | None:
        """Return what is in a regular file, None if there is none. OSError if it is larger or leads out of `within`."""
        if time.monotonic() > self.until:
            raise TimeoutError(path)
        try:
            place = self._resolve(path)
            if place is None:
                return None
            if place.files is None or not _is_below(place.shown, within):
                raise PermissionError(path)
            with closing(place.files.open(place.path)) as file:
                if not stat.S_ISREG(file.info.st_mode) or file.info.st_size > limit:
                    raise PermissionError(path)
                return b"".join(iter_pieces(file, limit, self.until))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _read(self, file, *, keeps: bool) -> dict:
        if file.info.st_size > MAX_FILE:
            return {"state": LARGE, "size": file.info.st_size}
        digest, kept, offset = hashlib.sha256(), bytearray(), 0
        while offset <= MAX_FILE and (piece := file.pread(PIECE, offset)):
            digest.update(piece)
            offset += len(piece)
            if keeps and offset <= min(MAX_CONTENT, self.left):
                kept += piece
            if time.monotonic() > self.until:
                raise TooSlow
        told = {"state": FILE, "sha256": digest.hexdigest(), "size": offset}
        if keeps and len(kept) == offset:
            self.left -= offset
            told["content"] = bytes(kept)
        return told

    def _resolve(self, path: bytes) -> Place | None:
        """Resolve the symlinks of a path as the kernel would; None for a loop or a path below a system folder."""
        todo, done, hops = [part for part in path.split(b"/") if part not in (b"", b".")], [], 0
        while todo:
            part = todo.pop(0)
            if part == b"..":
                done = done[:-1]
                continue
            done.append(part)
            at = self._place(b"/" + b"/".join(done))
            target = self._target(at)
            if target is None:
                continue
            hops += 1
            if hops > MAX_SYMLINKS:
                return None
            done = [] if target.startswith(b"/") else done[:-1]
            todo = [part for part in target.split(b"/") if part not in (b"", b".")] + todo
        whole = b"/" + b"/".join(done)
        if _is_below(whole, SYSTEM):
            self.of_system[path] = whole
            return None
        return self._place(whole)

    def _place(self, whole: bytes) -> Place:
        for root, files in self.mounts:
            if _is_below(whole, (root,)):
                return Place(files, whole[len(root) :].lstrip(b"/"), whole)
        return Place(None, b"", whole)

    def _target(self, place: Place) -> bytes | None:
        if place.files is None or not place.path:
            return None
        if place.shown not in self.targets:
            target = None
            with suppress(OSError, StoreError, safe_open.BadPath):  # most are not symlinks
                target = place.files.readlink(place.path)
            self.targets[place.shown] = target
        return self.targets[place.shown]


def iter_pieces(file, limit: int, until: float):
    """Yield a file's bytes up to the limit. OSError when it grows beyond, or at the time limit."""
    offset = 0
    while piece := file.pread(PIECE, offset):
        offset += len(piece)
        if offset > limit or time.monotonic() > until:
            raise OSError("too large or too slow to read")
        yield piece


def _is_below(path: bytes, folders) -> bool:
    return any(path == folder or path.startswith(folder.rstrip(b"/") + b"/") for folder in folders)


def read(workspace, tree, search_path: str, asked: list[tuple[str, str, bool]], seconds: float) -> dict:
    """Return {"files": [results of `Contents.describe`], "complete"} for (path, kind, whether to keep the content).

    `search_path` is the PATH of the workspace's programs, "" while it is not up.
    """
    with ExitStack() as stack:
        contents = contents_of(workspace, tree, search_path, stack, seconds)
        found = {}
        try:
            for path, kind, keeps in asked:
                told = contents.describe(os.fsencode(path), kind, keeps=keeps)
                if told is not None:
                    found.setdefault(told["path"], told)
        except TooSlow:
            return {"files": list(found.values()), "complete": False}
        return {"files": list(found.values()), "complete": True}


def resolved_programs(workspace, tree, search_path: str, names: list[str], seconds: float) -> dict[str, str]:
    """Return {name: path} of programs that the PATH finds outside the system's folders, or finds by another name there.

    A link such as `cat` to `/usr/bin/bash` is another program, one to `/usr/bin/cat` is not.
    """
    found = {}
    with ExitStack() as stack, suppress(TooSlow):
        contents = contents_of(workspace, tree, search_path, stack, seconds)
        # In a connected folder the home's programs are the person's own.
        root = os.fsencode(workspace.own_folder or "/")
        folders = [folder for folder in contents.search if _is_below(folder, (root,))]
        for name, folder in itertools.product(map(os.fsencode, names), folders):
            path = folder + b"/" + name
            is_other = contents.is_file(path)
            led = os.path.basename(contents.of_system.get(path, name))
            if is_other or not led.startswith(name):
                found.setdefault(os.fsdecode(name), os.fsdecode(path))
    return found


def contents_of(workspace, tree, search_path: str, stack: ExitStack, seconds: float) -> Contents:
    """Return what reads files of a workspace, its agent's home and, for a connected folder, this host."""
    if path := workspace.own_folder:
        user = user_env(os.stat(path).st_uid)
        folders = [os.fsencode(folder) for folder in user["PATH"].split(":") if folder.startswith("/")]
        home = os.fsencode(user["HOME"])
        own = tuple(dict.fromkeys([home + b"/.local/bin", home + b"/bin", *folders]))
        search = tuple(folder for folder in own if not _is_below(folder, SYSTEM))
        return Contents([(b"/", HostFiles(os.stat(path).st_uid))], search, home, seconds)
    # An image may set its own PATH. The agent can write only to its folders below the tree and the home.
    search = [folder for folder in os.fsencode(search_path).split(b":") if _is_below(folder, (TREE, HOME))]
    files, home_files = stack.enter_context(tree.tree_and_home())
    mounts = [(TREE, files), *([(HOME, home_files)] if home_files is not None else [])]
    return Contents(mounts, tuple(search) or AGENT_PATH, HOME, seconds)

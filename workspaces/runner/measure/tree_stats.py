"""Count what lies under given paths of a live tree, how much of it git tracks, and resolve symlinks on the way.

Counting follows no symlink and runs nothing of the tree. It is bounded; beyond a bound the counts are minimums.
"""

import fnmatch
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from workspaces.git_files import index as git_index
from workspaces.store import safe_open
from workspaces.store.files import Found, read_whole

MAX_ENTRIES = 100_000
MAX_SECONDS = 2.0
MAX_DEPTH = 400
MAX_PATHS = 10_000
MAX_NAMED = 20  # paths listed by name
MAX_INDEX_BYTES = 64 << 20
MAX_SYMLINKS = 40  # the kernel's limit
GLOB = re.compile(rb"[*?\[]")


class LimitReached(Exception):
    """A bound on time or entries was reached."""


@dataclass
class TreeStats:
    """Counts of files (symlinks and other non-folders included), folders and bytes; `complete` is False at a bound.

    Of the files, `tracked` are in a git index, `untracked` are not, `history` lie inside a `.git` folder, and `unknown`
    belong to a repository whose index could not be read.
    """

    files: int = 0
    folders: int = 0
    bytes: int = 0
    tracked: int = 0
    untracked: int = 0
    history: int = 0
    unknown: int = 0
    complete: bool = True
    matches: int = 0
    paths: list = field(default_factory=list)  # the first matches, folders with a trailing "/"
    missing: list = field(default_factory=list)


@dataclass(frozen=True)
class Repository:
    """A git repository at `folder`. `names` are the paths in its index, or None if that cannot be read."""

    folder: bytes
    names: frozenset | None


class Counter:
    """One bounded count of the entries of a tree."""

    def __init__(self, files, seconds: float = MAX_SECONDS, entries: int = MAX_ENTRIES):
        self.files, self.found = files, TreeStats()
        self.until, self.left = time.monotonic() + seconds, entries
        self.indexes: dict[bytes, Repository | None] = {}
        self.seen: set[bytes] = set()

    def count_entry(self):
        self.left -= 1
        if self.left < 0 or time.monotonic() > self.until:
            self.found.complete = False
            raise LimitReached

    def entries(self, folder: bytes) -> list[tuple[bytes, Found]]:
        """Return (name, lstat) of a folder's entries; [] for an unreadable one, which makes the count incomplete."""
        found = []
        try:
            for entry in self.files.entries(folder):
                self.count_entry()
                found.append(entry)
        except OSError:
            self.found.complete = False
            return []
        return found

    def expand(self, pattern: bytes) -> Iterator[bytes]:
        """Yield the paths that a shell would expand a pattern to, and one that exists literally as written."""
        parts = safe_open.split_path(pattern)
        todo = [(b"", 0)]
        while todo:
            at, depth = todo.pop()
            if depth == len(parts):
                yield at
                continue
            part = parts[depth]
            names = {part} if self.exists(_joined(at, part)) else set()
            if GLOB.search(part):
                match = _matcher(part)
                names |= {name for name, _ in self.entries(at) if match(name)}
            todo += [(_joined(at, name), depth + 1) for name in sorted(names, reverse=True)]

    def exists(self, path: bytes) -> bool:
        return self.stat(path) is not None

    def stat(self, path: bytes) -> Found | None:
        try:
            return self.files.stat(path)
        except OSError:
            return None

    def add(self, path: bytes):
        """Count an entry and everything below it, each once."""
        todo = [(path, self.stat(path))]
        while todo:
            at, info = todo.pop()
            if info is None or at in self.seen:
                continue
            self.seen.add(at)
            if stat.S_ISDIR(info.st_mode):
                self.found.folders += 1
                if at.count(b"/") > MAX_DEPTH:
                    self.found.complete = False
                    continue
                todo += [(_joined(at, name), below) for name, below in self.entries(at)]
            else:
                self._count(at, info)

    def _count(self, path: bytes, info: Found):
        found = self.found
        found.files += 1
        found.bytes += info.st_size if stat.S_ISREG(info.st_mode) else 0
        if b".git" in path.split(b"/")[:-1]:
            found.history += 1
            return
        repository = self.repository(path.rpartition(b"/")[0])
        if repository is None:
            found.untracked += 1
        elif repository.names is None:
            found.unknown += 1
        elif path[len(repository.folder) :].lstrip(b"/") in repository.names:
            found.tracked += 1
        else:
            found.untracked += 1

    def repository(self, folder: bytes) -> Repository | None:
        """Return the innermost repository that contains a folder."""
        passed, at = [], folder
        while at not in self.indexes:
            info = self.stat(_joined(at, b".git"))
            if info is not None:
                self.indexes[at] = Repository(at, self._index(at, info))
            elif at:
                passed.append(at)
                at = at.rpartition(b"/")[0]
            else:
                self.indexes[at] = None
        self.indexes |= dict.fromkeys(passed, self.indexes[at])
        return self.indexes[folder]

    def _index(self, folder: bytes, info: os.stat_result) -> frozenset | None:
        if not stat.S_ISDIR(info.st_mode):
            return None  # a symlink or a gitfile that points elsewhere, which is not followed
        path = _joined(folder, b".git/index")
        try:
            info = self.files.stat(path)
            if not stat.S_ISREG(info.st_mode) or info.st_size > MAX_INDEX_BYTES:
                return None
            data = read_whole(self.files, path, MAX_INDEX_BYTES)
            return frozenset(name for name, _ in git_index.entries(data, MAX_ENTRIES))
        except FileNotFoundError:
            return frozenset()  # nothing was ever added
        except (OSError, ValueError):
            return None


def count(tree, patterns: list[bytes], *, exact: bool = False, seconds: float = MAX_SECONDS) -> TreeStats:
    """Count what lies under some shell patterns, or with `exact` literal paths. Raise BadPath outside the tree."""
    with tree.files() as files:
        counter = Counter(files, seconds)
        try:
            for pattern in patterns[:MAX_PATHS]:
                _count_one(counter, [pattern] if exact else counter.expand(pattern), pattern)
            counter.found.complete &= len(patterns) <= MAX_PATHS
        except LimitReached:
            pass
        return counter.found


def _count_one(counter: Counter, paths, pattern: bytes):
    matched = 0
    for path in paths:
        if not counter.exists(path):
            continue
        matched += 1
        counter.found.matches += 1
        if len(counter.found.paths) < MAX_NAMED:
            info = counter.stat(path)
            counter.found.paths.append(path + b"/" if info is not None and stat.S_ISDIR(info.st_mode) else path)
        counter.add(path)
    if not matched and len(counter.found.missing) < MAX_NAMED:
        counter.found.missing.append(pattern)


def as_json(found: TreeStats) -> dict:
    """Return a TreeStats as JSON; bytes of a name that are not UTF-8 become lone surrogates (`os.fsdecode`)."""
    names = {name: [os.fsdecode(path) for path in getattr(found, name)] for name in ("paths", "missing")}
    return asdict(found) | names


# Symlinks ------------------------------------------------------------------------------------------------------------


def links(tree, paths: list[bytes], shown_root: bytes, *, seconds: float) -> tuple[dict[bytes, bytes], bool]:
    """Return ({path: target} of the symlinks on the way to some paths, whether that is all of them).

    A path is relative to the tree and taken as written, `..` included. For a pattern that matches symlinks the key
    is the pattern itself, with the target that leads farthest. `shown_root` is the tree's path inside the workspace.
    """
    with tree.files() as files:
        walk = _Walk(Counter(files, seconds), shown_root)
        try:
            for path in paths:
                walk.follow(path)
        except LimitReached:
            return walk.found, False
        return walk.found, True


class _Walk:
    def __init__(self, counter: Counter, shown_root: bytes):
        self.counter, self.shown_root = counter, shown_root.rstrip(b"/")
        self.found: dict[bytes, bytes] = {}

    def follow(self, path: bytes):
        """Record each symlink on the way and follow it as long as it stays within the tree."""
        todo, at, hops = path.split(b"/"), [], 0
        while todo:
            self.counter.count_entry()
            part = todo.pop(0)
            if part in (b"", b"."):
                continue
            if part == b"..":
                if not at:
                    return  # `..` leads out of the tree, which the path shows without this
                at.pop()
                continue
            here = b"/".join([*at, part])
            target = self._target(here, b"/".join(at), part)
            if target is None:
                at.append(part)
                continue
            self.found[here] = target
            hops += 1
            inside = self._inside(target)
            if hops > MAX_SYMLINKS or inside is None:
                return
            at = [] if target.startswith(b"/") else at
            todo = inside.split(b"/") + todo

    def _inside(self, target: bytes) -> bytes | None:
        """Strip `shown_root` from an absolute target, None if it points elsewhere; a relative one is unchanged."""
        if not target.startswith(b"/"):
            return target
        if target == self.shown_root or target.startswith(self.shown_root + b"/"):
            return target[len(self.shown_root) :].lstrip(b"/")
        return None

    def _target(self, path: bytes, folder: bytes, part: bytes) -> bytes | None:
        targets = [] if (own := self._read(path)) is None else [own]
        if GLOB.search(part):
            match = _matcher(part)
            for name, info in self.counter.entries(folder):
                if stat.S_ISLNK(info.st_mode) and match(name) and (target := self._read(_joined(folder, name))):
                    targets.append(target)
        return max(targets, key=lambda target: (self._inside(target) is None, target.count(b"..")), default=None)

    def _read(self, path: bytes) -> bytes | None:
        try:
            return self.counter.files.readlink(path)
        except (OSError, safe_open.BadPath):
            return None


def _joined(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name


def _matcher(part: bytes):
    """Return a predicate for names that match one component of a shell pattern; a leading dot must be explicit."""
    text = os.fsdecode(part).replace("[^", "[!")
    # pattern: a name of at most 255 bytes; fnmatch never goes back over a star
    matches = re.compile(fnmatch.translate(text)).match
    dotted = part.startswith(b".")
    return lambda name: (dotted or not name.startswith(b".")) and matches(os.fsdecode(name)) is not None

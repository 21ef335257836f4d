"""What lies under some paths of a live tree: how much, kept by git or not, and which symlinks are on the way.

Nothing is followed and nothing of the tree is run. What is counted is bounded; beyond the bounds it is "at least".
"""

import fnmatch
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

from workspaces.store import beneath
from workspaces.store.files import Found, read_whole

MOST_ENTRIES = 100_000
MOST_SECONDS = 2.0
MOST_DEPTH = 400
MOST_PATHS = 10_000
SHOWN = 20  # paths that are named
INDEX_BYTES = 64 << 20
MOST_LINKS = 40  # as the kernel
GLOB = re.compile(rb"[*?\[]")


class Enough(Exception):
    """A bound was met."""


@dataclass
class Weight:
    """Counts of files (with symlinks and the like), folders and bytes; `complete` is False at a bound.

    Of the files `tracked` are in a git index, `untracked` are not, `history` are a repository's own. `repositories`
    that no index could be read of leave theirs in `unknown`.
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
    paths: list = field(default_factory=list)  # the first of what was found, folders with "/" at the end
    missing: list = field(default_factory=list)


@dataclass(frozen=True)
class Repository:
    """`names` are the paths in its index, below `folder`; None: there is one, and its index cannot be read."""

    folder: bytes
    names: frozenset | None


class Scale:
    """One weighing of the entries of a tree."""

    def __init__(self, files, seconds: float = MOST_SECONDS, entries: int = MOST_ENTRIES):
        self.files, self.found = files, Weight()
        self.until, self.left = time.monotonic() + seconds, entries
        self.indexes: dict[bytes, Repository | None] = {}
        self.seen: set[bytes] = set()

    def spend(self):
        self.left -= 1
        if self.left < 0 or time.monotonic() > self.until:
            self.found.complete = False
            raise Enough

    def entries(self, folder: bytes) -> list[tuple[bytes, Found]]:
        """(name, lstat) of what is in a folder; nothing for what cannot be opened, which is then not complete."""
        found = []
        try:
            for entry in self.files.entries(folder):
                self.spend()
                found.append(entry)
        except OSError:
            self.found.complete = False
            return []
        return found

    def expand(self, pattern: bytes) -> Iterator[bytes]:
        """The paths that a shell would put in the place of a pattern; a name that is there as written is one too."""
        parts = beneath.split_path(pattern)
        todo = [(b"", 0)]
        while todo:
            at, depth = todo.pop()
            if depth == len(parts):
                yield at
                continue
            part = parts[depth]
            names = {part} if self.is_there(_joined(at, part)) else set()
            if GLOB.search(part):
                match = _matcher(part)
                names |= {name for name, _ in self.entries(at) if match(name)}
            todo += [(_joined(at, name), depth + 1) for name in sorted(names, reverse=True)]

    def is_there(self, path: bytes) -> bool:
        return self.stat(path) is not None

    def stat(self, path: bytes) -> Found | None:
        try:
            return self.files.stat(path)
        except OSError:
            return None

    def add(self, path: bytes):
        """Count an entry and all that is in it, each once."""
        todo = [(path, self.stat(path))]
        while todo:
            at, info = todo.pop()
            if info is None or at in self.seen:
                continue
            self.seen.add(at)
            if stat.S_ISDIR(info.st_mode):
                self.found.folders += 1
                if at.count(b"/") > MOST_DEPTH:
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
        """The innermost repository that holds a folder."""
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
        import pygit2  # slow to load: the first who weighs pays for it, not each start of the runner

        if not stat.S_ISDIR(info.st_mode):
            return None  # a link or a file that names another place, which is not gone to
        path = _joined(folder, b".git/index")
        try:
            info = self.files.stat(path)
            if not stat.S_ISREG(info.st_mode) or info.st_size > INDEX_BYTES:
                return None
            return _names_in(read_whole(self.files, path, INDEX_BYTES))
        except FileNotFoundError:
            return frozenset()  # nothing was ever added
        except (pygit2.GitError, OSError, ValueError):
            return None


def _names_in(index: bytes) -> frozenset:
    """The paths in a git index; pygit2 wants a name, so it gets one that no file system has."""
    import pygit2  # as above

    fd = os.memfd_create("index")
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(index)
        return frozenset(os.fsencode(entry.path) for entry in pygit2.Index(f"/proc/self/fd/{fd}"))
    finally:
        os.close(fd)


def weigh(tree, patterns: list[bytes], *, exact: bool = False, seconds: float = MOST_SECONDS) -> Weight:
    """What lies under some paths, or shell patterns unless `exact`; BadPath for one that leads out of the tree."""
    with tree.files() as files:
        scale = Scale(files, seconds)
        try:
            for pattern in patterns[:MOST_PATHS]:
                _weigh_one(scale, [pattern] if exact else scale.expand(pattern), pattern)
            scale.found.complete &= len(patterns) <= MOST_PATHS
        except Enough:
            pass
        return scale.found


def _weigh_one(scale: Scale, paths, pattern: bytes):
    matched = 0
    for path in paths:
        if not scale.is_there(path):
            continue
        matched += 1
        scale.found.matches += 1
        if len(scale.found.paths) < SHOWN:
            info = scale.stat(path)
            scale.found.paths.append(path + b"/" if info is not None and stat.S_ISDIR(info.st_mode) else path)
        scale.add(path)
    if not matched and len(scale.found.missing) < SHOWN:
        scale.found.missing.append(pattern)


def told(found: Weight) -> dict:
    """A Weight as JSON; names that are not UTF-8 hold lone surrogates, as Python has them."""
    names = {name: [os.fsdecode(path) for path in getattr(found, name)] for name in ("paths", "missing")}
    return asdict(found) | names


# Symlinks ------------------------------------------------------------------------------------------------------------


def links(tree, paths: list[bytes], shown_root: bytes, *, seconds: float) -> tuple[dict[bytes, bytes], bool]:
    """({path: target} of the symlinks on the way to some paths, whether that is all of them).

    A path is relative to the tree and taken as written, `..` included. Of a pattern that matches symlinks the entry
    is the pattern itself, with the target that leads farthest. `shown_root` is how the workload calls the tree.
    """
    with tree.files() as files:
        walk = _Walk(Scale(files, seconds), shown_root)
        try:
            for path in paths:
                walk.follow(path)
        except Enough:
            return walk.found, False
        return walk.found, True


class _Walk:
    def __init__(self, scale: Scale, shown_root: bytes):
        self.scale, self.shown_root = scale, shown_root.rstrip(b"/")
        self.found: dict[bytes, bytes] = {}

    def follow(self, path: bytes):
        """Note each link on the way, and go on where it leads as long as that is within the tree."""
        todo, at, hops = path.split(b"/"), [], 0
        while todo:
            self.scale.spend()
            part = todo.pop(0)
            if part in (b"", b"."):
                continue
            if part == b"..":
                if not at:
                    return  # out of the tree; the text alone says so
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
            if hops > MOST_LINKS or inside is None:
                return
            at = [] if target.startswith(b"/") else at
            todo = inside.split(b"/") + todo

    def _inside(self, target: bytes) -> bytes | None:
        """A target without the tree's own name in front; None when it is absolute and elsewhere."""
        if not target.startswith(b"/"):
            return target
        if target == self.shown_root or target.startswith(self.shown_root + b"/"):
            return target[len(self.shown_root) :].lstrip(b"/")
        return None

    def _target(self, path: bytes, folder: bytes, part: bytes) -> bytes | None:
        targets = [] if (own := self._read(path)) is None else [own]
        if GLOB.search(part):
            match = _matcher(part)
            for name, info in self.scale.entries(folder):
                if stat.S_ISLNK(info.st_mode) and match(name) and (target := self._read(_joined(folder, name))):
                    targets.append(target)
        return max(targets, key=lambda target: (self._inside(target) is None, target.count(b"..")), default=None)

    def _read(self, path: bytes) -> bytes | None:
        try:
            return self.scale.files.readlink(path)
        except (OSError, beneath.BadPath):
            return None


def _joined(folder: bytes, name: bytes) -> bytes:
    return folder + b"/" + name if folder else name


def _matcher(part: bytes):
    """Does a name match one component of a shell pattern? A leading dot must be written out."""
    text = os.fsdecode(part).replace("[^", "[!")
    matches = re.compile(fnmatch.translate(text)).match
    dotted = part.startswith(b".")
    return lambda name: (dotted or not name.startswith(b".")) and matches(os.fsdecode(name)) is not None

"""The git state of a tree: branch, commit, upstream and what is not committed. Neither git nor its settings run.

Everything is read from the files of a snapshot, through `files` as of a tree of the store. Filters and line-end
settings are not applied: a file that differs from its blob only by them counts as modified, unless git noted it as
unchanged.
"""

import hashlib
import re
import stat
import struct
import time
import zlib
from collections.abc import Iterator

from workspaces.changes.history import path_fields
from workspaces.git_files import index as git_index
from workspaces.git_files import patterns as ignore_patterns
from workspaces.git_files.index import DIRECTORY, GITLINK, Index, Indexed
from workspaces.git_files.objects import Objects
from workspaces.store import StoreError
from workspaces.store.files import read_whole

PACKED_REFS = 16 << 20  # most bytes read of .git/packed-refs
INDEX_BYTES = 32 << 20
CONFIG_BYTES = 1 << 20
IGNORE_BYTES = 1 << 18
MAX_INDEXED = 100_000  # paths of the index
NAMED = 200  # dirty paths that are named
HASHED_BYTES = 64 << 20  # content that is hashed, because git did not note it as unchanged
SECONDS = 1.0
UNREADABLE = (StoreError, OSError, ValueError, IndexError, struct.error, zlib.error, RecursionError)
SECTION = re.compile(r'\s*\[branch "(?P<name>(?:[^"\\]|\\.)*)"\]\s*(?:[#;].*)?')
SETTING = re.compile(r"\s*(?P<name>remote|merge)\s*=\s*(?P<value>[^#;\s]+)\s*(?:[#;].*)?")


class CutOff(Exception):
    """A limit was reached; the message says which."""


def git_of(files) -> tuple[dict | None, dict | None]:
    """Return ({branch, sha}, {name, sha} of its upstream); None for what there is not."""
    try:
        if not stat.S_ISDIR(files.stat(b".git").st_mode):
            return None, None
        head = _small(files, b".git/HEAD")
        if not head.startswith("ref: refs/heads/"):
            return {"branch": None, "sha": head[:64]}, None
        branch = head.removeprefix("ref: refs/heads/")
        return {"branch": branch, "sha": _ref(files, f"refs/heads/{branch}")}, _upstream(files, branch)
    except (StoreError, OSError, ValueError):
        return None, None


def dirty_of(files, sha: str | None) -> dict:
    """Return {count, files: [{path, state}], cut_off} of what is not committed; `sha` is the commit, None before one.

    `state`: modified, deleted, staged, conflict, untracked. `cut_off` says what was not compared, "" if all was.
    """
    found: dict[bytes, str] = {}
    try:
        index = git_index.parse(bytes_of(files, b".git/index", INDEX_BYTES), MAX_INDEXED)
        walk = _Walk(files, index, found)
        walk.run()
        _staged(files, index, sha, found, walk)
        cut_off = ""
    except FileNotFoundError:
        cut_off = "there is no index"
    except CutOff as limit:
        cut_off = str(limit)
    except UNREADABLE as error:
        cut_off = str(error)[:200] or "it cannot be read"
    paths = sorted(found)
    told = [path_fields("path", path) | {"state": found[path]} for path in paths[:NAMED]]
    return {"count": len(paths), "files": told, "cut_off": cut_off}


class _Walk:
    """Compare the files of a tree with the index."""

    def __init__(self, files, index: Index, found: dict[bytes, str]):
        self.files, self.entries, self.found = files, index.entries, found
        self.written_ns = files.stat(b".git/index").st_mtime_ns
        self.folders = {path[:at] for path in self.entries for at in _slashes(path)}
        self.seen: set[bytes] = set()
        self.hashed = self.patterns = 0
        self.until = time.monotonic() + SECONDS

    def run(self):
        self._folder(b"", self._ignored(b".git/info/exclude", b""))
        for path, entry in self.entries.items():
            if entry.is_conflict:
                self.found[path] = "conflict"
            elif path not in self.seen and not entry.is_skipped and entry.mode not in (DIRECTORY, GITLINK):
                self.found[path] = "deleted"

    def check_time(self):
        if time.monotonic() > self.until:
            raise CutOff(f"not all was compared within {SECONDS:.0f} s")

    def _folder(self, path: bytes, ignored: tuple):
        self.check_time()
        prefix = path + b"/" if path else b""
        listed = list(self.files.entries(path))
        if any(name == b".gitignore" for name, _ in listed):
            ignored = (*ignored, *self._ignored(prefix + b".gitignore", prefix))
        for name, info in listed:
            inner = prefix + name
            if name == b".git":
                continue
            entry, is_folder = self.entries.get(inner), stat.S_ISDIR(info.st_mode)
            if entry is not None and (entry.mode == GITLINK or not is_folder):  # else a folder took a file's place
                self.seen.add(inner)
                if not entry.is_skipped and entry.mode != GITLINK and self._differs(inner, info, entry):
                    self.found[inner] = "modified"
            elif inner in self.folders and is_folder:
                self._folder(inner, ignored)
            elif self._is_untracked(inner, info, ignored):
                self.found[inner + b"/" if is_folder else inner] = "untracked"

    def _differs(self, path: bytes, info, entry: Indexed) -> bool:
        if stat.S_IFMT(info.st_mode) != stat.S_IFMT(entry.mode):
            return True
        if stat.S_ISREG(info.st_mode) and bool(info.st_mode & 0o100) != bool(entry.mode & 0o100):
            return True
        if info.st_size & 0xFFFFFFFF == entry.size and self._same_time(info.st_mtime_ns, entry.mtime_ns):
            return False
        return self._sha(path, info, len(entry.sha)) != entry.sha

    def _same_time(self, now: int, noted: int) -> bool:
        """Return whether git would trust the time: it is the noted one, and older than the index."""
        same = now == noted if noted % 10**9 else now // 10**9 == noted // 10**9
        return same and now < self.written_ns

    def _sha(self, path: bytes, info, name_bytes: int) -> bytes:
        self.check_time()
        if stat.S_ISLNK(info.st_mode):
            data = self.files.readlink(path)
            return _name_of(data, name_bytes)
        self.hashed += info.st_size
        if self.hashed > HASHED_BYTES:
            raise CutOff(f"more than {HASHED_BYTES >> 20} MB would have to be compared by content")
        data = read_whole(self.files, path, info.st_size)
        return _name_of(data, name_bytes)

    def _is_untracked(self, path: bytes, info, ignored: tuple) -> bool:
        """Return whether git would list it as untracked: not ignored, and if a folder, with such a file in it."""
        self.check_time()
        is_folder = stat.S_ISDIR(info.st_mode)
        if ignore_patterns.innermost(ignored, path, is_folder, self.check_time):
            return False
        if not is_folder:
            return stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode)
        inside = list(self.files.entries(path))
        if any(name == b".git" for name, _ in inside):
            return True
        if any(name == b".gitignore" for name, _ in inside):
            ignored = (*ignored, *self._ignored(path + b"/.gitignore", path + b"/"))
        return any(self._is_untracked(path + b"/" + name, below, ignored) for name, below in inside)

    def _ignored(self, path: bytes, prefix: bytes) -> tuple:
        """Return ((prefix, its patterns),) of an ignore file; () without one."""
        try:
            patterns = ignore_patterns.parse(bytes_of(self.files, path, IGNORE_BYTES))
        except (OSError, ValueError):
            return ()
        self.patterns += len(patterns)
        if self.patterns > ignore_patterns.MAX_IN_ALL:
            raise CutOff(f"the ignore files have more than {ignore_patterns.MAX_IN_ALL:,} patterns")
        return ((prefix, patterns),)


def _name_of(data: bytes, name_bytes: int) -> bytes:
    algorithm = "sha1" if name_bytes == 20 else "sha256"
    return hashlib.new(algorithm, b"blob %d\0" % len(data) + data, usedforsecurity=False).digest()


def _staged(files, index: Index, sha: str | None, found: dict[bytes, str], walk: _Walk):
    """Note the paths that the index has otherwise than the commit, and that do not differ further in the tree."""
    objects, committed = Objects(files), {}
    if sha:
        tree = objects.tree_of(bytes.fromhex(sha))
        if tree == index.tree:
            return
        committed = {path: (mode, blob) for path, mode, blob in _blobs(objects, tree, b"", walk)}
    for path, entry in index.entries.items():
        if committed.get(path) != (entry.mode, entry.sha) and entry.mode != DIRECTORY:
            found.setdefault(path, "staged")
    for path in committed.keys() - index.entries.keys():
        found.setdefault(path, "staged")


def _blobs(objects: Objects, tree: bytes, prefix: bytes, walk: _Walk) -> Iterator[tuple[bytes, int, bytes]]:
    walk.check_time()
    for mode, name, sha in objects.entries(tree):
        if stat.S_ISDIR(mode):
            yield from _blobs(objects, sha, prefix + name + b"/", walk)
        else:
            yield prefix + name, mode, sha


def _slashes(path: bytes) -> Iterator[int]:
    at = path.find(b"/")
    while at >= 0:
        yield at
        at = path.find(b"/", at + 1)


def bytes_of(files, path: bytes, limit: int) -> bytes:
    """Return the content of a regular file. Raise ValueError for anything else, or for a larger one."""
    found = files.stat(path)
    if not stat.S_ISREG(found.st_mode) or found.st_size > limit:
        raise ValueError(f"{path.decode('utf-8', 'replace')} is too large, or no file")
    return read_whole(files, path, limit)


def _small(files, path: bytes, limit: int = 4096) -> str:
    return bytes_of(files, path, limit).decode("utf-8", "replace").strip()


def _ref(files, name: str) -> str | None:
    if ".." in name.split("/"):
        return None
    try:
        return _small(files, b".git/" + name.encode())[:64]
    except (OSError, ValueError):
        pass  # the ref is packed, or the branch is unborn
    try:
        packed = _small(files, b".git/packed-refs", PACKED_REFS)
    except (OSError, ValueError):
        return None
    lines = (line for line in packed.splitlines() if line.endswith(f" {name}"))
    return next((line.split(" ", 1)[0] for line in lines), None)


def _upstream(files, branch: str) -> dict | None:
    """Return {name, sha} of the remote-tracking branch that .git/config names for the branch; includes are not read."""
    try:
        lines = _small(files, b".git/config", CONFIG_BYTES).splitlines()
    except (OSError, ValueError):
        return None
    inside, told = False, {}
    for line in lines:
        if line.lstrip().startswith("["):
            section = SECTION.fullmatch(line)
            inside = bool(section) and section["name"] == branch
        elif inside and (setting := SETTING.fullmatch(line)):
            told[setting["name"]] = setting["value"]
    if not told.get("remote") or not told.get("merge", "").startswith("refs/heads/"):
        return None
    name = told["merge"].removeprefix("refs/heads/")
    if told["remote"] == ".":
        return {"name": name, "sha": _ref(files, f"refs/heads/{name}")}
    return {"name": f"{told['remote']}/{name}", "sha": _ref(files, f"refs/remotes/{told['remote']}/{name}")}

"""Which files an environment leaves out of snapshots: those that its ignore patterns match and git does not track.

Never files that take effect by themselves, such as those of the gate in `.claude`, if they or their folder are matched
by name. A file that is left out stays as it is when a snapshot is restored.
"""

import hashlib
import logging
from collections import OrderedDict

from workspaces.envelope.sensitive_names import OUTER, any_takes_effect
from workspaces.git_files import index as git_index
from workspaces.git_files import patterns as ignore_patterns
from workspaces.git_files.index import GITLINK
from workspaces.store import StoreError
from workspaces.store.files import read_whole

logger = logging.getLogger("handrail.runner")

INDEX_BYTES = 32 << 20
MAX_INDEXED = 100_000
MAX_REMEMBERED = 64  # answers for an index, over all workspaces
_SLASH = ord("/")


class Ignoring:
    """The entries that are left out of snapshots, as a `LeavesOut` of the store."""

    def __init__(self, text: str, tracked: frozenset[bytes] = frozenset(), modules: frozenset[bytes] = frozenset()):
        """`tracked`: the paths that git tracks; `modules`: its submodules, whose files are not looked at."""
        self._patterns = ignore_patterns.parse(text.encode())
        self._folders: dict[bytes, bool] = {b"": False}
        self._modules = modules
        self.tracked = frozenset(path for path in tracked if self._is_ignored(path, False))
        self._on_the_way = {folder for path in self.tracked | modules for folder in _folders_of(path)}
        facts = [text.encode(), *sorted(self.tracked), b"\0", *sorted(modules)]
        self.digest = hashlib.sha256(b"\0".join(facts)).hexdigest()

    def __call__(self, path: bytes, is_folder: bool) -> bool:
        if not self._is_ignored(path, is_folder) or path in self.tracked or self._is_in_module(path):
            return False
        return not (is_folder and path in self._on_the_way) and not _is_protected(path, is_folder)

    def _is_ignored(self, path: bytes, is_folder: bool) -> bool:
        """Return whether a pattern ignores the path or a folder that it is in."""
        if is_folder and (known := self._folders.get(path)) is not None:
            return known
        above = path.rpartition(b"/")[0]
        found = self._is_ignored(above, True) or bool(ignore_patterns.matching(self._patterns, path, is_folder))
        if is_folder:
            self._folders[path] = found
        return found

    def _is_in_module(self, path: bytes) -> bool:
        return bool(self._modules) and any(folder in self._modules for folder in (path, *_folders_of(path)))


def rules_for(text: str, tree) -> Ignoring | None:
    """Return the rules for a live tree; None leaves nothing out, since what git tracks cannot be told."""
    try:
        with tree.files() as files:
            data = _index_of(files)
        return _with_index(text, data) if data is not None else Ignoring(text)
    except (OSError, ValueError, StoreError) as error:
        logger.warning("nothing is left out of a snapshot: what git tracks is not known: %s", error)
        return None


def _index_of(files) -> bytes | None:
    """Return git's index, None if the files are no repository. Raise ValueError for one that is not read here."""
    try:
        found = files.stat(b".git")
    except FileNotFoundError:
        return None
    if found.st_mode & 0o170000 != 0o040000:
        raise ValueError(".git is no folder")
    try:
        if files.stat(b".git/index").st_size > INDEX_BYTES:
            raise ValueError("the index is too large")
    except FileNotFoundError:
        return None
    return read_whole(files, b".git/index", INDEX_BYTES)


_remembered: OrderedDict[tuple, Ignoring] = OrderedDict()  # by patterns and index


def _with_index(text: str, data: bytes) -> Ignoring:
    key = text, hashlib.sha256(data).digest()
    if (known := _remembered.pop(key, None)) is None:
        modes = {path: entry.mode for path, entry in git_index.entries(data, MAX_INDEXED)}
        modules = frozenset(path for path, mode in modes.items() if mode == GITLINK)
        known = Ignoring(text, frozenset(modes) - modules, modules)
    _remembered[key] = known
    while len(_remembered) > MAX_REMEMBERED:
        _remembered.popitem(last=False)
    return known


def _folders_of(path: bytes) -> list[bytes]:
    return [path[:at] for at, letter in enumerate(path) if letter == _SLASH]


def _is_protected(path: bytes, is_folder: bool) -> bool:
    """Return whether it takes effect by itself, lies in such a folder, or is a folder that may hold some."""
    parts = path.decode("utf-8", "replace").lower().split("/")
    if any_takes_effect(parts):
        return True
    return is_folder and parts[-1] in OUTER

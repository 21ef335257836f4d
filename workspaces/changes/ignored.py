"""Which changed files are left out of a review, because git ignores them or a tool builds them.

A file is left out only if both trees ignore it and git tracks it in neither: a pattern that was added between them,
perhaps by the agent whose work is reviewed, hides nothing.
"""

import logging
from fnmatch import fnmatchcase

from django.core.cache import cache

from workspaces.envelope.sensitive_names import NOT_SECRET, SECRET_NAMES, any_takes_effect
from workspaces.git_files import index as git_index
from workspaces.git_files import patterns
from workspaces.git_files.work import Spent, Work
from workspaces.store import Store, StoreError
from workspaces.store.objects import FILE, Entry

logger = logging.getLogger("handrail.web")

SECONDS = 5.0
MAX_FOLDERS = 400  # whose .gitignore is read in one comparison
MAX_BYTES = 64 * 1024  # of one .gitignore
INDEX_BYTES = 64 << 20
MAX_INDEXED = 500_000
MAX_WORK = 256 << 20  # bytes of all that is read
KEPT_SECONDS = 600
# What tools make again from other files. Names that a project may use for its own, such as `build`, are not among them.
BUILT = b"""
node_modules/
bower_components/
__pycache__/
*.pyc
*.pyo
.venv/
venv/
.tox/
.nox/
.eggs/
*.egg-info/
.mypy_cache/
.pytest_cache/
.ruff_cache/
.hypothesis/
.ipynb_checkpoints/
.gradle/
.next/
.nuxt/
.svelte-kit/
.parcel-cache/
.turbo/
.nyc_output/
.terraform/
.DS_Store
"""
_BUILT = patterns.parse(BUILT)
_SLASH = ord("/")


def ignored(store: Store, trees: tuple[str, str], paths: list[bytes]) -> frozenset[bytes]:
    """Return those of the changed paths that are left out; none if it takes too long to tell."""
    key = f"ignored:{store.id}:{trees[0]}:{trees[1]}"
    if (found := cache.get(key)) is not None:
        return found
    work = Work(MAX_WORK, SECONDS)
    try:
        with work.running():
            changed = frozenset(paths)
            rules = [_Rules(store, tree, work, changed) for tree in trees]
            found = frozenset(path for path in paths if all(each.ignore(path) for each in rules))
    except (Spent, git_index.Unreadable) as error:
        logger.warning("no file is ignored between %s and %s: %s", *trees, error)
        found = frozenset()
    cache.set(key, found, KEPT_SECONDS)
    return found


class _Rules:
    """What is ignored in one tree: built folders and what a .gitignore matches, without what git tracks."""

    def __init__(self, store: Store, tree: str, work: Work, changed: frozenset[bytes]):
        self.store, self.tree, self.work, self.changed = store, tree, work, changed
        self.tracked: set[bytes] = set()  # of the changed paths
        self.files: dict[bytes, list[patterns.Pattern]] = {}  # by folder, with a slash unless it is the root
        self.patterns_left = patterns.MAX_IN_ALL
        self.folders: dict[bytes, bool] = {}  # whether each is ignored
        self._read(b"")

    def ignore(self, path: bytes) -> bool:
        """Return whether git would not list the path, or a tool built it."""
        self.work.take()
        above = (path[:at] for at, letter in enumerate(path) if letter == _SLASH)
        is_ignored = any(map(self._ignore_folder, above)) or self._matches(path, False)
        return is_ignored and path not in self.tracked

    def _ignore_folder(self, folder: bytes) -> bool:
        """Return whether the folder is ignored, if those above are not; read what one says that is not."""
        if folder not in self.folders:
            self.folders[folder] = self._matches(folder, True)
            if not self.folders[folder] and len(self.folders) < MAX_FOLDERS:
                self._read(folder + b"/")
        return self.folders[folder]

    def _matches(self, path: bytes, is_folder: bool) -> bool:
        self.work.take(len(path))
        if patterns.matching(_BUILT, path, is_folder):
            return True
        if _is_always_shown(path):
            return False
        ends = [at + 1 for at, letter in enumerate(path) if letter == _SLASH]
        prefixes = (b"", *(path[:end] for end in ends))
        files = tuple((prefix, self.files[prefix]) for prefix in prefixes if prefix in self.files)
        return patterns.innermost(files, path, is_folder, self.work.take)

    def _read(self, prefix: bytes):
        """Take what a folder's .gitignore says, and what git tracks in a repository there. Raise Unreadable."""
        if text := self._content(prefix + b".gitignore", MAX_BYTES):
            found = self.files[prefix] = patterns.parse(text)
            self.patterns_left -= len(found)
            if self.patterns_left < 0:
                raise Spent("the ignore files have too many patterns")
        if self._entry(prefix + b".git/index") is not None:
            if (data := self._content(prefix + b".git/index", INDEX_BYTES)) is None:
                raise git_index.Unreadable("an index is too large to read")
            for path, _ in git_index.entries(data, MAX_INDEXED):
                self.work.take()
                if (whole := prefix + path) in self.changed:
                    self.tracked.add(whole)

    def _entry(self, path: bytes) -> Entry | None:
        try:
            return self.store.entry(self.tree, path)
        except StoreError:
            return None

    def _content(self, path: bytes, limit: int) -> bytes | None:
        entry = self._entry(path)
        if entry is None or entry.kind != FILE or not entry.kept or entry.size > limit:
            return None
        self.work.take(entry.size)
        try:
            return self.store.read(self.tree, path)
        except StoreError:
            return None


def _is_always_shown(path: bytes) -> bool:
    """Return whether a review must not miss it whatever is ignored: it takes effect by itself, or may hold secrets."""
    parts = path.decode("utf-8", "surrogateescape").lower().split("/")
    if any_takes_effect(parts) or parts[-1] == ".gitignore":
        return True
    is_secret = any(fnmatchcase(parts[-1], pattern) for pattern in SECRET_NAMES)
    return is_secret and not any(fnmatchcase(parts[-1], pattern) for pattern in NOT_SECRET)

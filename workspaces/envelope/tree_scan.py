"""Find the secret and the protected paths of a tree, again and again, reading only the folders that changed."""

import fnmatch
import os
import re
import time

from .sensitive_names import (
    NOT_SECRET,
    SECRET_FOLDERS,
    SECRET_NAMES,
    SECRET_PAIRS,
    takes_effect,
)

# What git runs or obeys, in `.git` itself and in the `.git` of each submodule and worktree below it.
GIT_PROTECTED = frozenset({"hooks", "config", "config.worktree", "commondir", "info"})
GIT_NESTED = frozenset({"modules", "worktrees"})
GIT_DATA = frozenset({"objects", "refs", "logs"})
BARE = frozenset({"HEAD", "objects", "refs"})  # by these git takes any folder for a repository
# Folders of fetched packages: what is in them is published, and they hold most folders of a tree.
UNSEARCHED = frozenset({"node_modules", "site-packages", "dist-packages", "__pycache__", "bower_components"})
MAX_FOLDERS = 200_000
# A change within the same tick of the clock as our reading would not show in the folder's change time.
SETTLED_NS = 100_000_000

# pattern: a name of at most 255 bytes
_SECRET = re.compile("|".join(fnmatch.translate(pattern) for pattern in SECRET_NAMES))
# pattern: as above
_NOT_SECRET = re.compile("|".join(fnmatch.translate(pattern) for pattern in NOT_SECRET))


class Found:
    """Sorted absolute paths: `secrets` must not be read, `protected` not be changed; with symlinks followed.

    `named` are the protected ones as they are named in the tree, also those that are secrets as well.
    """

    def __init__(self, secrets, protected, named=()):
        self.secrets, self.protected, self.named = secrets, protected, named


class _Folder:
    """What one folder held when it was read: its state then, and what to do with its entries."""

    __slots__ = ("both", "protected", "secrets", "settled", "state", "subfolders")

    def __init__(self, state, settled):
        self.state, self.settled = state, settled
        self.subfolders, self.secrets, self.protected = [], [], []
        self.both = []  # of the secrets those that are protected as well


class TreeScan:
    """The sensitive paths of one tree."""

    def __init__(self, root):
        self.root = root
        self.known = {}  # path: _Folder

    def find(self):
        """Return what is there now. Raise ValueError for a tree too large to search."""
        known, self.known = self.known, {}
        secrets, protected, both = set(), set(), set()
        waiting = [(self.root, "", "plain")]
        while waiting:
            path, name, kind = waiting.pop()
            if len(self.known) > MAX_FOLDERS:
                raise ValueError(f"the workspace has more than {MAX_FOLDERS:,} folders")
            try:
                found = os.lstat(path)
                state = (found.st_dev, found.st_ino, found.st_ctime_ns)
                folder = known.get(path)
                if folder is None or folder.state != state or not folder.settled:
                    folder = _read(path, name, kind, state)
            except OSError:
                continue  # gone meanwhile, or not ours to read; then no program of ours can read it
            self.known[path] = folder
            waiting += folder.subfolders
            secrets.update(folder.secrets)
            protected.update(folder.protected)
            both.update(folder.both)
        return Found(self._resolved(secrets), self._resolved(protected), sorted(protected | both))

    def _resolved(self, paths):
        """Return the paths with symlinks followed, sorted; without those that lead out of the tree or nowhere."""
        found = set()
        for path in paths:
            real = os.path.realpath(path) if os.path.islink(path) else path
            if real.startswith(self.root + "/") and os.path.lexists(real):
                found.add(real)
        return sorted(found)


def _read(path, name, kind, state):
    """Read a folder. `kind`: plain, git (.git), nest (its modules or worktrees), module (in a nest), or protected."""
    folder = _Folder(state, time.time_ns() - state[2] > SETTLED_NS)
    with os.scandir(path) as entries:
        entries = list(entries)
    bare = BARE.issubset(entry.name for entry in entries)
    for entry in entries:
        lower = entry.name.lower()
        is_folder = entry.is_dir(follow_symlinks=False)
        if kind in ("git", "nest", "module"):
            if lower in GIT_PROTECTED and kind != "nest":
                folder.protected.append(entry.path)
            elif is_folder and (inner := _kind_in_git(kind, lower, bare)):
                folder.subfolders.append((entry.path, lower, inner))
        elif is_secret(name, lower, is_folder):
            folder.secrets.append(entry.path)
            if kind == "plain" and takes_effect(lower, name):
                folder.both.append(entry.path)
        elif lower == ".git" and is_folder:
            folder.subfolders.append((entry.path, lower, "git"))
        else:
            protected = kind == "plain" and (takes_effect(lower, name) or (bare and lower in GIT_PROTECTED))
            if protected:
                folder.protected.append(entry.path)
            if is_folder and lower not in UNSEARCHED:
                folder.subfolders.append((entry.path, lower, "protected" if protected else kind))
    return folder


def _kind_in_git(kind, name, bare):
    """Return the kind of the folder `name` in a folder of this kind: nest or module; "" if it need not be read."""
    if name in GIT_NESTED and kind != "nest":
        return "nest"
    # A submodule's name may have slashes, so its folder can be at any depth.
    return "module" if kind == "nest" or (kind == "module" and not (bare and name in GIT_DATA)) else ""


def is_bare(path):
    """Return whether git takes this folder for a repository wherever it is."""
    return all(os.path.lexists(os.path.join(path, name)) for name in BARE)


def is_secret(parent, name, is_folder):
    """Return whether an entry of the folder `parent` holds secrets; both names in lower case."""
    if (parent, name) in SECRET_PAIRS:
        return True
    if is_folder:
        return name in SECRET_FOLDERS
    return _SECRET.match(name) is not None and _NOT_SECRET.match(name) is None

"""Hide the secrets in a copy of a workspace's files from a program that no envelope can be laid around.

The files with secrets are moved out of the copy, and an empty entry that cannot be opened stands for each. After the
program they are moved back, but for those whose stand-in is no longer what it was.
"""

import os
import stat
from pathlib import Path

from workspaces.envelope.tree_scan import TreeScan
from workspaces.runner.refusals import Refused
from workspaces.store import safe_open

TOUCHED = "It changed, moved or removed files with secrets, which it could not read."
PROTECTED = "It changed files that take effect by themselves, such as hooks or a CI configuration."


class Masks:
    """The secrets and the protected paths of the copy in `tree`; the secrets are kept in `aside` meanwhile."""

    def __init__(self, tree: Path, aside: Path):
        self.tree, self.aside = tree, aside
        self.protected: set[bytes] = set()
        self.secrets: list[bytes] = []  # paths in the tree; the number of each is its name in `aside`
        self.stand_ins: list[tuple] = []  # what stands for each, once nothing but the program can change it

    def lay(self):
        """Put the stand-ins in place. Nothing may run in the tree yet. Raise Refused for a tree too large to search."""
        found = self._find()
        self.protected = self._inside({*found.named, *found.protected})
        self.aside.mkdir()
        for path in found.secrets:
            inside = os.path.relpath(os.fsencode(path), os.fsencode(self.tree))
            if any(inside.startswith(outer + b"/") for outer in self.secrets):
                continue
            is_folder = stat.S_ISDIR(os.lstat(path).st_mode)
            os.rename(path, self.aside / str(len(self.secrets)))
            self.secrets.append(inside)
            if is_folder:
                os.mkdir(path)
            else:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            os.chmod(path, 0)

    def remember(self):
        """Remember what stands in the places, after the last change of ours and before the program begins."""
        self.stand_ins = [_state(os.lstat(self.tree / os.fsdecode(path))) for path in self.secrets]

    def lift(self) -> str:
        """Put the secrets back, after the program. Return why what it left cannot be applied; "" if it can."""
        root = safe_open.open_root(self.tree)
        try:
            back = [self._put_back(root, number) for number in range(len(self.secrets))]
        finally:
            os.close(root)
        return "" if all(back) else TOUCHED

    def _put_back(self, root: int, number: int) -> bool:
        """Replace one stand-in by the secret; False if the program had it changed."""
        # The program chose what the folders above it are by now, so no symlink among them is followed.
        try:
            with safe_open.parent_beneath(root, self.secrets[number]) as (at, name):
                found = os.stat(name, dir_fd=at, follow_symlinks=False)
                if _state(found) != self.stand_ins[number]:
                    return False
                (os.rmdir if stat.S_ISDIR(found.st_mode) else os.unlink)(name, dir_fd=at)
                os.rename(self.aside / str(number), name, dst_dir_fd=at)
                return True
        except OSError:
            return False

    def why_not_applied(self, changes) -> str:
        """Return why these changes cannot be applied; "" if none is of a path that an envelope protects."""
        after = self._find()
        names = self.protected | self._inside({*after.named, *after.protected})
        changed = [path for change in changes for path in (change.path, change.old_path) if path]
        return PROTECTED if any(_is_at_or_below(path, names) for path in changed) else ""

    def _find(self):
        try:
            return TreeScan(str(self.tree)).find()
        except ValueError as error:
            raise Refused(f"Its secrets could not be hidden: {error}.") from error

    def _inside(self, paths: set[str]) -> set[bytes]:
        return {os.path.relpath(os.fsencode(path), os.fsencode(self.tree)) for path in paths}


def _state(found: os.stat_result) -> tuple:
    # Each write, chmod, rename and new link changes the change time, which no program can set.
    return (found.st_dev, found.st_ino, found.st_mode, found.st_uid, found.st_size, found.st_ctime_ns)


def _is_at_or_below(path: bytes, names: set[bytes]) -> bool:
    parts = path.split(b"/")
    return any(b"/".join(parts[:count]) in names for count in range(1, len(parts) + 1))

"""Execute a restore with a journal, so that a crash at any point can be recovered to the old or the new tree.

The journal is one JSON line. Its phases are `staging`: the tree is unchanged, and recovery removes the stage;
`applying`: the stage is complete and durable, and recovery executes the remaining steps, detecting finished ones by
inode number, or rolls all of them back if that fails; `cleaning`: the tree is final, and only the stage is left.
"""

import errno
import hashlib
import json
import os
import stat
from pathlib import Path

from .atomic_write import flush_folder, replace_file
from .attributes import Attributes, set_on
from .depth import RAISE_LIMITS_AT, raise_limits
from .errors import StoreError
from .file_system import sync_tree
from .moves import has_begun, move_aside, move_back
from .safe_open import RENAME_EXCHANGE, open_beneath, open_root, parent_beneath, rename_at

VERSION = 2
_ASIDE = b".old"
_SWAPPED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV)
STAGING, APPLYING, CLEANING = "staging", "applying", "cleaning"


def as_text(path: bytes) -> str:
    """Return a bytes path as a string for JSON (latin-1)."""
    return path.decode("latin-1")


def as_path(text: str) -> bytes:
    return text.encode("latin-1")


def write_journal(journal: Path, phase: str, target: bytes, stage: dict, steps: list[dict]) -> None:
    body = json.dumps(
        {"version": VERSION, "phase": phase, "target": as_text(target), "stage": stage, "steps": steps}
    ).encode()
    replace_file(journal, body + b"\n" + hashlib.sha256(body).hexdigest().encode() + b"\n")


def read_journal(journal: Path) -> dict | None:
    """Return the journal's fields, None if there is no journal. Raise StoreError if it is damaged."""
    try:
        data = journal.read_bytes()
    except FileNotFoundError:
        return None
    body, _, checksum = data.partition(b"\n")
    # It is written atomically, so a crash cannot have damaged it.
    if hashlib.sha256(body).hexdigest().encode() != checksum.strip():
        raise StoreError(f"the journal {journal} is damaged; the tree may be partly restored")
    fields = json.loads(body)
    if fields["version"] != VERSION:
        raise StoreError(f"the journal {journal} has version {fields['version']}; this program supports {VERSION}")
    return fields


def recover(journal: str | os.PathLike) -> str | None:
    """Finish or roll back an interrupted restore. Return the tree's state, "old" or "new", or None without a journal.

    Must run before anything reads or starts in the tree. Idempotent. Raise StoreError if it cannot finish.
    """
    journal = Path(journal)
    for name in os.listdir(journal.parent):
        if name.startswith(f"{journal.name}.") and name.endswith(".new"):
            (journal.parent / name).unlink()  # left by an interrupted write of the journal
    fields = read_journal(journal)
    if fields is None:
        return None
    target, stage = as_path(fields["target"]), fields["stage"]
    state = "old" if fields["phase"] == STAGING else "new"
    if fields["phase"] == APPLYING:
        try:
            tree_fd, stage_fd = open_root(target), _open_stage(stage)
        except FileNotFoundError as error:
            raise StoreError(f"{os.fsdecode(target)} or its staging folder is missing") from error
        try:
            try:
                carry_out(tree_fd, stage_fd, fields["steps"])
            except RolledBack:
                state = "old"
            except OSError as error:
                raise StoreError(f"{os.fsdecode(target)} could not be recovered: {error}; try again") from error
            sync_tree(tree_fd)
        finally:
            os.close(tree_fd)
            os.close(stage_fd)
        write_journal(journal, CLEANING, target, stage, [])
    finish(journal, stage)
    return state


def finish(journal: Path, stage: dict) -> None:
    """Remove the stage, then the journal."""
    remove_stage(stage)
    journal.unlink()
    flush_folder(journal.parent)


def remove_stage(stage: dict) -> None:
    path = as_path(stage["path"])
    try:
        fd = _open_stage(stage)
    except FileNotFoundError:
        return
    try:
        empty(fd)
    finally:
        os.close(fd)
    os.rmdir(path)


def _open_stage(stage: dict) -> int:
    path = as_path(stage["path"])
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    found = os.fstat(fd)
    if found.st_uid != stage["uid"] or stage["inode"] not in (None, found.st_ino):
        os.close(fd)
        raise StoreError(f"{os.fsdecode(path)} is not the staging folder of the restore")
    return fd


def empty(fd: int, depth: int = 0) -> None:
    """Remove everything below an open folder without following symlinks."""
    if depth == RAISE_LIMITS_AT:
        raise_limits()
    with os.scandir(fd) as listing:
        entries = list(listing)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            below = _open_for_removal(fd, entry.name)
            try:
                empty(below, depth + 1)
            finally:
                os.close(below)
            os.rmdir(entry.name, dir_fd=fd)
        else:
            os.unlink(entry.name, dir_fd=fd)


def _open_for_removal(fd: int, name: str) -> int:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    # A folder without permissions for its owner cannot be emptied. The stage is ours, so add them.
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    try:
        if os.fstat(handle).st_mode & 0o700 != 0o700:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)
    finally:
        os.close(handle)
    return os.open(name, flags, dir_fd=fd)


# -- steps ---------------------------------------------------------------------------------------------------------


def carry_out(tree_fd: int, stage_fd: int, steps: list[dict]) -> None:
    """Execute the steps that are not done. On an error roll back all steps and raise RolledBack.

    Raise OSError if the rollback fails too.
    """
    done: list[dict] = []
    try:
        for step in steps:
            done.append(step)
            _DO[step["do"]](tree_fd, stage_fd, step)
    except OSError as error:
        for step in reversed(done):
            _UNDO[step["do"]](tree_fd, stage_fd, step)
        for step in steps:  # the rollback's renames changed the times of folders whose own step was not reached
            if step["do"] == "adjust":
                _readjust(tree_fd, stage_fd, step)
        raise RolledBack(f"the restore was rolled back: {error.strerror}: {error.filename}") from error


class RolledBack(StoreError):
    """The restore failed and was rolled back; the tree is as it was."""


def _inode(at: int, name: bytes) -> int | None:
    try:
        return os.stat(name, dir_fd=at, follow_symlinks=False).st_ino
    except FileNotFoundError:
        return None


def _place(tree_fd: int, stage_fd: int, step: dict) -> None:
    staged = as_path(step["staged"])
    with parent_beneath(tree_fd, as_path(step["path"])) as (at, name):
        there = _inode(at, name)
        if there == step["inode"]:
            return
        is_begun = has_begun(stage_fd, staged + _ASIDE)
        if is_begun or (there is not None and not _exchange(stage_fd, staged, at, name)):
            move_aside(at, name, stage_fd, staged + _ASIDE)
            there = None
        if there is None:
            rename_at(stage_fd, staged, at, name)


def _unplace(tree_fd: int, stage_fd: int, step: dict) -> None:
    staged = as_path(step["staged"])
    with parent_beneath(tree_fd, as_path(step["path"])) as (at, name):
        aside = _inode(stage_fd, staged + _ASIDE) is not None
        if _inode(at, name) == step["inode"]:
            if _inode(stage_fd, staged) is not None:
                _exchange(stage_fd, staged, at, name)
                return
            rename_at(at, name, stage_fd, staged)
        if has_begun(stage_fd, staged + _ASIDE) or (aside and _inode(at, name) is None):
            move_back(stage_fd, staged + _ASIDE, at, name)


def _exchange(stage_fd: int, staged: bytes, at: int, name: bytes) -> bool:
    try:
        rename_at(stage_fd, staged, at, name, RENAME_EXCHANGE)
    except OSError as error:
        # Network file systems lack RENAME_EXCHANGE, and overlayfs renames no folder of a lower layer.
        if error.errno in (errno.EINVAL, errno.ENOSYS, errno.EXDEV):
            return False
        raise
    return True


def _remove(tree_fd: int, stage_fd: int, step: dict) -> None:
    with parent_beneath(tree_fd, as_path(step["path"])) as (at, name):
        staged = as_path(step["staged"])
        is_to_go = _inode(at, name) is not None and _inode(stage_fd, staged) is None
        if is_to_go or has_begun(stage_fd, staged):
            move_aside(at, name, stage_fd, staged)


def _unremove(tree_fd: int, stage_fd: int, step: dict) -> None:
    staged = as_path(step["staged"])
    with parent_beneath(tree_fd, as_path(step["path"])) as (at, name):
        is_gone = _inode(stage_fd, staged) is not None and _inode(at, name) is None
        if is_gone or has_begun(stage_fd, staged):
            move_back(stage_fd, staged, at, name)


def _adjust(tree_fd: int, stage_fd: int, step: dict, side: str = "to") -> None:
    try:
        fd = open_beneath(tree_fd, as_path(step["path"]), os.O_PATH | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in _SWAPPED:
            return  # the proof after the restore reports it
        raise
    try:
        found = os.fstat(fd)
        # Another hard link of the file may lie outside the tree; a symlink has no mode to set.
        own = stat.S_ISDIR(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink == 1)
        if found.st_ino == step["inode"] and own:
            set_on(fd, Attributes.from_list(step[side]), path=f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)


def _readjust(tree_fd: int, stage_fd: int, step: dict) -> None:
    _adjust(tree_fd, stage_fd, step, side="from")


def _unlock(tree_fd: int, stage_fd: int, step: dict) -> None:
    """Give a folder's owner full access during the restore; the folder's own step sets its final mode."""
    fd = open_beneath(tree_fd, as_path(step["path"]), os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY)
    try:
        os.chmod(f"/proc/self/fd/{fd}", stat.S_IMODE(os.fstat(fd).st_mode) | 0o700)
    finally:
        os.close(fd)


def _relock(tree_fd: int, stage_fd: int, step: dict) -> None:
    fd = open_beneath(tree_fd, as_path(step["path"]), os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY)
    try:
        os.chmod(f"/proc/self/fd/{fd}", step["mode"])
    finally:
        os.close(fd)


_DO = {"place": _place, "remove": _remove, "adjust": _adjust, "unlock": _unlock}
_UNDO = {"place": _unplace, "remove": _unremove, "adjust": _readjust, "unlock": _relock}

"""Create files, folders, links and their attributes in a guest's staging folder, as the host describes them.

Runs inside guests, so it uses the standard library only.
"""

import os

from ..attributes import Attributes, set_on, set_on_new, set_xattrs
from ..journal import as_path
from ..safe_open import parent_beneath
from ..swap import OpenFolders

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class StageBuilder:
    """Create the entries of a restore in the stage; the counterpart on the host is `sender.Sender`."""

    def __init__(self, stage_fd: int, tree_fd: int):
        self.stage_fd, self.tree_fd = stage_fd, tree_fd
        self.folders = OpenFolders(stage_fd)
        self.mine = os.geteuid(), os.getegid()
        self.large = -1

    def close(self) -> None:
        self.folders.close()
        if self.large >= 0:
            os.close(self.large)

    def make(self, items: list, body: bytes) -> None:
        view, at = memoryview(body), 0
        for kind, path, *rest in items:
            parent, _, name = as_path(path).rpartition(b"/")
            folder = self.folders.open(parent)
            if kind == "file":
                length, attributes = rest
                self._file(folder, name, view[at : at + length], Attributes.from_list(attributes))
                at += length
            elif kind == "data":
                offset, length = rest
                _write_at(self.large, view[at : at + length], offset)
                at += length
            else:
                getattr(self, f"_{kind}")(folder, name, *rest)

    def _file(self, folder: int, name: bytes, data: memoryview, wanted: Attributes) -> None:
        fd = os.open(name, _CREATE, 0o600, dir_fd=folder)
        try:
            mode = os.fstat(fd).st_mode & 0o7777  # the umask may have cleared some bits
            _write_at(fd, data, 0)
            set_on_new(fd, wanted, (*self.mine, mode))
        finally:
            os.close(fd)

    def _open(self, folder: int, name: bytes) -> None:
        self.large = os.open(name, _CREATE, 0o600, dir_fd=folder)

    def _shut(self, folder: int, name: bytes, size: int, attributes: list) -> None:
        fd, self.large = self.large, -1
        try:
            os.ftruncate(fd, size)
            set_on(fd, Attributes.from_list(attributes))
        finally:
            os.close(fd)

    def _folder(self, folder: int, name: bytes) -> None:
        os.mkdir(name, 0o700, dir_fd=folder)

    def _finish(self, folder: int, name: bytes, attributes: list) -> None:
        fd = os.open(name, _FOLDER | os.O_CLOEXEC, dir_fd=folder)
        try:
            set_on(fd, Attributes.from_list(attributes))
        finally:
            os.close(fd)

    def _symlink(self, folder: int, name: bytes, target: str, attributes: list) -> None:
        os.symlink(as_path(target), name, dir_fd=folder)
        self._set_on_name(folder, name, Attributes.from_list(attributes))

    def _fifo(self, folder: int, name: bytes, attributes: list) -> None:
        os.mkfifo(name, 0o600, dir_fd=folder)
        wanted = Attributes.from_list(attributes)
        self._set_on_name(folder, name, wanted)
        os.chmod(name, wanted.mode, dir_fd=folder)

    def _set_on_name(self, folder: int, name: bytes, wanted: Attributes) -> None:
        if wanted.uid is not None:
            os.chown(name, wanted.uid, wanted.gid, dir_fd=folder, follow_symlinks=False)
        if wanted.xattrs:
            set_xattrs(f"/proc/self/fd/{folder}/{os.fsdecode(name)}", wanted.xattrs, follow=False)
        os.utime(name, ns=(wanted.mtime_ns, wanted.mtime_ns), dir_fd=folder, follow_symlinks=False)

    def link(self, sources: list[list], to: str) -> bool:
        """Hard-link the first existing source as `to`; a source is [in stage, path]. Return False if none works."""
        parent, _, name = as_path(to).rpartition(b"/")
        folder = self.folders.open(parent)
        for staged, path in sources:
            try:
                with parent_beneath(self.stage_fd if staged else self.tree_fd, as_path(path)) as (source, last):
                    os.link(last, name, src_dir_fd=source, dst_dir_fd=folder, follow_symlinks=False)
                return True
            except OSError:
                continue  # it was removed meanwhile, or hard links are not permitted: the host sends the file instead
        return False


def _write_at(fd: int, data: memoryview, offset: int) -> None:
    while data:
        written = os.pwrite(fd, data, offset)
        data, offset = data[written:], offset + written

"""Serve a snapshot's folder with libfuse 3 (mfusepy), in the foreground, until a signal or an unmount.

The kernel may keep all that it has read: a snapshot never changes. So a name is looked up once, folders are listed with
the attributes of their entries, and files are opened and closed without a question.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import stat
from typing import TYPE_CHECKING

from ..errors import StoreError
from ..objects import FIFO, FILE, FOLDER, SYMLINK, Entry

LIBRARIES = ("libfuse3.so.4", "libfuse3.so.3")


def _library() -> str:
    """Return the name of libfuse 3 on this host. Raise OSError if it is missing."""
    for name in LIBRARIES[:-1]:
        try:
            return ctypes.CDLL(name)._name
        except OSError:
            continue
    return ctypes.CDLL(LIBRARIES[-1])._name


try:
    # Named, because mfusepy would search for it by starting programs, and would prefer libfuse 2.
    os.environ.setdefault("FUSE_LIBRARY_PATH", _library())
    import mfusepy
except (ImportError, OSError) as missing:
    raise StoreError(
        "to mount a snapshot, install libfuse 3 (Debian: `apt install fuse3`) and the extra handrail[mount] "
        f"({missing})"
    ) from missing

if TYPE_CHECKING:
    from collections.abc import Callable

    from .snapshot_folder import SnapshotFolder

FOREVER = 86_400.0 * 365  # seconds for which the kernel may keep names and attributes
_TYPES = {FILE: stat.S_IFREG, FOLDER: stat.S_IFDIR, SYMLINK: stat.S_IFLNK, FIFO: stat.S_IFIFO}
_PLUS = 2  # FUSE_FILL_DIR_PLUS: the attributes of the entry are all there


class _Served(mfusepy.Operations):
    """The callbacks that libfuse may call. `_Fuse` has those of the hot path, without mfusepy's dictionaries."""

    use_ns = True

    def __init__(self, folder: SnapshotFolder, ready: Callable[[], None]):
        self.folder, self.ready, self.is_mounted = folder, ready, False

    def init(self, path):
        self.is_mounted = True
        self.ready()

    def getattr(self, path, fh=None):
        raise AssertionError("_Fuse answers this")

    def readdir(self, path, fh):
        raise AssertionError("_Fuse answers this")

    def read(self, path, size, offset, fh):
        raise AssertionError("_Fuse answers this")

    def open(self, path, flags):
        raise OSError(errno.ENOSYS, "not needed")  # from here on the kernel opens files by itself

    def readlink(self, path):
        return os.fsdecode(self.folder.entry(_bytes(path)).target)

    def listxattr(self, path):
        self._refuse_if_none_has_any()
        return [name.decode("utf-8", "surrogateescape") for name in self.folder.entry(_bytes(path)).xattrs]

    def getxattr(self, path, name, position=0):
        self._refuse_if_none_has_any()
        entry = self.folder.entry(_bytes(path))
        value = entry.xattrs.get(_bytes(name)) if entry.extras else None
        if value is None:
            raise OSError(errno.ENODATA, os.strerror(errno.ENODATA))
        return value

    def _refuse_if_none_has_any(self):
        if not self.folder.has_xattrs():
            raise OSError(errno.ENOSYS, "not needed")  # the kernel does not ask again

    def statfs(self, path):
        below = self.folder.root
        return {"f_bsize": 4096, "f_frsize": 4096, "f_namemax": 255, "f_blocks": -(-below.size // 4096)}


class _Fuse(mfusepy.FUSE):
    def getattr_fuse_3(self, path, buf, fip):
        self._fill(buf.contents, path, self.operations.folder.entry(path))

    def readdir_fuse_3(self, path, buf, filler, offset, fip, flags):
        folder, found = self.operations.folder, mfusepy.c_stat()
        found.st_mode = stat.S_IFDIR
        for name in (b".", b".."):
            filler(buf, name, found, 0, 0)
        above = path if path != b"/" else b""
        for name, entry in folder.entries(path).items():
            self._fill(found, above + b"/" + name, entry)
            if filler(buf, name, found, 0, _PLUS):
                raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    def read(self, path, buf, size, offset, fip):
        data = self.operations.folder.read(path, size, offset)
        ctypes.memmove(buf, data, len(data))
        return len(data)

    def _fill(self, found, path: bytes, entry: Entry) -> None:
        folder = self.operations.folder
        seconds, rest = divmod(entry.mtime_ns, 1_000_000_000)
        found.st_mode = _TYPES[entry.kind] | entry.mode
        found.st_ino = folder.inode(path, entry)
        found.st_nlink = folder.links(entry) if entry.link else 1
        found.st_uid, found.st_gid = entry.uid, entry.gid
        found.st_size, found.st_blocks, found.st_blksize = entry.size, -(-entry.size // 512), 4096
        for field in (found.st_mtimespec, found.st_ctimespec, found.st_atimespec):
            field.tv_sec, field.tv_nsec = seconds, rest


def serve(
    folder: SnapshotFolder,
    place: str | os.PathLike,
    *,
    name: str,
    ready: Callable[[], None],
    everyone: bool = False,
    threads: bool = False,
) -> None:
    """Mount the folder at `place` and serve it until it is unmounted.

    SIGTERM, SIGINT and SIGHUP unmount it, whether it is in use or not. `name` is what `mount` lists as the source.
    `ready()` is called once it is mounted. With `everyone` all users of the host may look, each as the modes and owners
    allow; else the one who mounts it, and root. `threads`: several readers are answered at once, which pays where the
    store is far away. Raise StoreError if it fails.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # libfuse then handles it as it does SIGTERM
    options = {"allow_other": True, "default_permissions": True} if everyone else {}
    served = _Served(folder, ready)
    try:
        _Fuse(
            served,
            os.fspath(place),
            foreground=True,
            nothreads=not threads,
            ro=True,
            nosuid=True,
            nodev=True,
            fsname=name,
            subtype="handrail",
            use_ino=True,
            kernel_cache=True,
            entry_timeout=FOREVER,
            attr_timeout=FOREVER,
            negative_timeout=FOREVER,
            **options,
        )
    except RuntimeError as error:  # a signal ends it with an error too
        if not served.is_mounted:
            raise StoreError(f"{os.fspath(place)} could not be mounted; see the message above") from error


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")

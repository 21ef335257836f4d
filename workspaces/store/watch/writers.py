"""Find out whether anybody has a file open for writing: such a file may change without an event.

A shared mapping, asynchronous I/O of the kernel (`io_submit`), a loop device and a copy-up of an overlay change a file
and raise no event, or none in time. All of them hold the file open for writing, and the kernel grants a read lease only
on a file that nobody has open for writing.
"""

import ctypes
import errno
import fcntl
import os
import signal
import stat
import struct
from collections.abc import Callable

_libc = ctypes.CDLL(None, use_errno=True)
_F_SETSIG = 10
_O_PATH = 0o10000000
_SYNC_ALL = 1 | 2 | 4  # wait before, write, wait after
_AT_EMPTY_PATH = 0x1000
_MOST = 128  # bytes of a handle
_INO32_GEN = (1, 2)  # FILEID_INO32_GEN, and with the folder's
_ASK = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


def open_to_ask(path: str, *, flags: int = 0, dir_fd: int | None = None) -> int:
    """Open a file to ask it for a writer, without a trace in its atime where it is the caller's own. Raise OSError."""
    try:
        return os.open(path, _ASK | flags | os.O_NOATIME, dir_fd=dir_fd)
    except PermissionError:
        return os.open(path, _ASK | flags, dir_fd=dir_fd)


def has_writer(fd: int, while_held: Callable[[], None] | None = None) -> bool:
    """Return whether anybody may have this open regular file open for writing; `fd` must be open for reading only.

    True also where it cannot be known: a file of another owner, for a caller without CAP_LEASE. The lease is given
    back at once, or after `while_held()`; whoever opens the file for writing in between waits for these microseconds.
    """
    try:
        fcntl.fcntl(fd, _F_SETSIG, signal.SIGURG)  # which is ignored by default, where SIGIO would end the process
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError:
        return True
    try:
        if while_held is not None:
            while_held()
    finally:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def sync_file(fd: int) -> None:
    """Write the dirty pages of an open file, so that the next store through a mapping moves its ctime."""
    _libc.sync_file_range(fd, ctypes.c_longlong(0), ctypes.c_longlong(0), _SYNC_ALL)


class Handle:
    """What the kernel calls a file, in events and to open it: independent of names. `kind` and `data` as it gives."""

    def __init__(self, root: int):
        """Take the form of the handles from an open folder. Raise OSError where the file system has no such handles."""
        self.kind, data = _handle(root)
        self.size = len(data)
        inode = os.fstat(root).st_ino
        # The kernel's own form has an inode and a generation of 32 bits. The latter is 0 in a folder of a new disk, and
        # the two read as an inode of 64 bits then, which no other file's handle does.
        forms = ("<I",) if self.kind in _INO32_GEN and self.size == 8 else ("<Q", "<I")
        self.form = next((form for form in forms if _reads(form, data, inode)), "")
        if not self.form:
            raise OSError(0, "the handles of this file system do not begin with the inode")

    def of(self, fd: int) -> bytes:
        """Return the handle of an open file."""
        return _handle(fd)[1]


def _reads(form: str, data: bytes, inode: int) -> bool:
    return len(data) >= struct.calcsize(form) and struct.unpack_from(form, data)[0] == inode


def _handle(fd: int) -> tuple[int, bytes]:
    buffer = ctypes.create_string_buffer(8 + _MOST)
    struct.pack_into("<Ii", buffer, 0, _MOST, 0)
    mount = ctypes.c_int()
    if _libc.name_to_handle_at(fd, b"", buffer, ctypes.byref(mount), _AT_EMPTY_PATH) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    size, kind = struct.unpack_from("<Ii", buffer)
    return kind, buffer.raw[8 : 8 + size]


def open_by_handle(mount: int, kind: int, data: bytes) -> int | None:
    """Open a regular file for reading by its handle; None if it is gone or no regular file. Raise OSError.

    Nothing else is opened: a FIFO would notice.
    """
    buffer = ctypes.create_string_buffer(struct.pack("<Ii", len(data), kind) + data)
    path = _libc.open_by_handle_at(mount, buffer, _O_PATH | os.O_CLOEXEC)
    if path < 0:
        code = ctypes.get_errno()
        if code == errno.ESTALE:
            return None
        raise OSError(code, os.strerror(code))
    try:
        if not stat.S_ISREG(os.fstat(path).st_mode):
            return None
        return open_to_ask(f"/proc/self/fd/{path}")
    finally:
        os.close(path)

"""Kernel calls that Python has no function for: asynchronous I/O, io_uring, reflinks, exchanges of names."""

import ctypes
import fcntl
import mmap
import os
import struct

_libc = ctypes.CDLL(None, use_errno=True)
_IO_SETUP, _IO_GETEVENTS, _IO_SUBMIT, _URING_SETUP, _URING_ENTER = 206, 208, 209, 425, 426  # x86-64
FICLONE = 0x40049409


def call(number, *args):
    done = _libc.syscall(ctypes.c_long(number), *args)
    if done < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return done


class Aio:
    """`io_submit`: writes that raise no event until the file is closed."""

    def __init__(self):
        self.context = ctypes.c_ulong(0)
        call(_IO_SETUP, 4, ctypes.byref(self.context))

    def write(self, fd, data, offset):
        held = ctypes.create_string_buffer(data, len(data))
        block = ctypes.create_string_buffer(
            struct.pack("<QIIHhIQQqQII", 0, 0, 0, 1, 0, fd, ctypes.addressof(held), len(data), offset, 0, 0, 0)
        )
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(block))
        call(_IO_SUBMIT, self.context, 1, pointers)
        events = ctypes.create_string_buffer(32)
        call(_IO_GETEVENTS, self.context, 1, 1, events, None)


class Uring:
    """One ring, one write at a time."""

    def __init__(self):
        parameters = ctypes.create_string_buffer(120)
        self.fd = call(_URING_SETUP, 4, parameters)
        (entries,) = struct.unpack_from("<I", parameters, 0)
        head = struct.unpack_from("<10I", parameters, 40)
        self.tail_at, self.array_at = head[1], head[6]
        done = struct.unpack_from("<10I", parameters, 80)
        self.done_head_at = done[0]
        both = max(head[6] + entries * 4, done[5] + entries * 2 * 16)
        self.rings = mmap.mmap(self.fd, both, mmap.MAP_SHARED, offset=0)
        self.asked = mmap.mmap(self.fd, entries * 64, mmap.MAP_SHARED, offset=0x10000000)
        self.mask = entries - 1

    def write(self, fd, data, offset):
        held = ctypes.create_string_buffer(data, len(data))
        (tail,) = struct.unpack_from("<I", self.rings, self.tail_at)
        slot = tail & self.mask
        fields = struct.pack("<BBHiQQIIQ", 23, 0, 0, fd, offset, ctypes.addressof(held), len(data), 0, 7)
        self.asked[slot * 64 : slot * 64 + 64] = fields.ljust(64, b"\0")
        struct.pack_into("<I", self.rings, self.array_at + slot * 4, slot)
        struct.pack_into("<I", self.rings, self.tail_at, tail + 1)
        call(_URING_ENTER, self.fd, 1, 1, 1, None, 0)
        (head,) = struct.unpack_from("<I", self.rings, self.done_head_at)
        struct.pack_into("<I", self.rings, self.done_head_at, head + 1)


def exchange(one, two):
    if _libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(two), 2) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def link_descriptor(fd, path):
    if _libc.linkat(-100, f"/proc/self/fd/{fd}".encode(), -100, os.fsencode(path), 0x400) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def mount(source, target, kind, flags, options):
    if _libc.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode() or None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def unmount(target):
    _libc.umount2(target.encode(), 2)


def clone(fd, source):
    """Share the blocks of another file, or copy them in the kernel where the file system cannot share."""
    with open(source, "rb") as file:
        try:
            fcntl.ioctl(fd, FICLONE, file.fileno())
        except OSError:
            os.copy_file_range(file.fileno(), fd, os.fstat(file.fileno()).st_size or 1, 0, 0)

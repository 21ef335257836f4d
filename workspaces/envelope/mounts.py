"""Mounts of this process's namespace: bind, make read-only and writable, also where the kernel has no mount_setattr.

gVisor has none. There each mount is made read-only by a mount of its own, which is the same as long as nothing else is
mounted meanwhile, and in a namespace of its own nothing is.
"""

import ctypes
import errno
import os
import re

from .syscalls import check, libc

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 1
KEPT_FLAGS = {"nosuid": MS_NOSUID, "nodev": MS_NODEV, "noexec": MS_NOEXEC}


class _Attributes(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "namespace"))


class Mount:
    """One mount, as /proc/self/mountinfo has it; `point` is where it is, `flags` are those that a remount keeps."""

    def __init__(self, line):
        fields = line.split(b" ")
        self.number, self.parent = int(fields[0]), int(fields[1])
        self.point = os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), fields[4]))
        options = fields[5].decode().split(",")
        self.flags = sum(flag for name, flag in KEPT_FLAGS.items() if name in options)


def mounts():
    """Return every mount of this process's namespace."""
    with open("/proc/self/mountinfo", "rb") as file:
        return [Mount(line) for line in file]


def reachable():
    """Return the mounts that a path leads to: no other one is mounted over them or over a folder above them."""
    every = mounts()
    beside, by_number = {}, {each.number: each for each in every}
    for each in every:
        beside.setdefault(each.parent, []).append(each)

    def is_attached(each):
        above = by_number.get(each.parent)
        if above is None:
            return True
        covers = (other.point for other in beside[each.parent] if other is not each)
        return is_attached(above) and not any(_is_below(each.point, point) for point in covers)

    return [
        each
        for each in every
        if is_attached(each) and not any(other.point == each.point for other in beside.get(each.number, ()))
    ]


def _is_below(path, top):
    return path == top or path.startswith(top.rstrip("/") + "/")


def mount(source, target, kind, flags, data=None):
    arguments = (source and os.fsencode(source), os.fsencode(target), kind and kind.encode())
    check(libc.mount(*arguments, ctypes.c_ulong(flags), data and data.encode()), f"mount {target}")


def bind(source, target):
    mount(source, target, None, MS_BIND | MS_REC)


def make_private():
    """Keep mounts of this namespace from others."""
    mount(None, "/", None, MS_REC | MS_PRIVATE)


def set_all_read_only():
    """Make every mount read-only."""
    if not _set_attributes("/", _Attributes(set=MOUNT_ATTR_RDONLY), AT_RECURSIVE):
        for each in reachable():
            mount(None, each.point, None, MS_REMOUNT | MS_BIND | MS_RDONLY | each.flags)


def set_writable(place):
    """Make the mount at a place writable, and none below it."""
    if not _set_attributes(place, _Attributes(clear=MOUNT_ATTR_RDONLY), 0):
        flags = next((each.flags for each in reachable() if each.point == place), 0)
        mount(None, place, None, MS_REMOUNT | MS_BIND | flags)


def _set_attributes(place, attributes, flags):
    """Return whether this kernel has the call; OSError if it refuses it."""
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    path = os.fsencode(place)
    done = libc.syscall(MOUNT_SETATTR, AT_FDCWD, path, ctypes.c_uint(flags), ctypes.byref(attributes), size)
    if done < 0 and ctypes.get_errno() == errno.ENOSYS:
        return False
    check(done, f"the mount of {place}")
    return True

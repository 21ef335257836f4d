"""A mount namespace for one program: secrets masked, protected paths read-only, its own /tmp, all else read-only.

It is made between fork and exec, by a process with CAP_SYS_ADMIN in its user namespace, or else in a new one.
"""

import ctypes
import os

from . import mask_watch
from .syscalls import CAP_SYS_ADMIN, check, has_capability, libc

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 1

NOTICE = b"# Masked by Handrail: this program may not read this file.\n"


class _Attributes(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "namespace"))


def own_namespace():
    """Enter a mount namespace in which this process may mount, and from which nothing leads back."""
    if has_capability(CAP_SYS_ADMIN):
        check(libc.unshare(CLONE_NEWNS), "a mount namespace")
    else:
        uid, gid = os.getuid(), os.getgid()
        check(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS), "a user namespace")
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    _mount(None, "/", None, MS_REC | MS_PRIVATE)


def works():
    """Return whether `own_namespace` and a mount work here, by trying both in a child."""
    child = os.fork()
    if child == 0:
        try:
            own_namespace()
            _mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=4k")
            set_read_only("/", recursive=True)
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def make(*, scratch, secrets, protected, writable, terminals, opened=(), kept=()):
    """Make the view of this process, which is in a namespace of its own.

    `scratch` is a folder with `tmp` and `shm`, shown as /tmp and /dev/shm. `protected` are paths below `writable`
    ones, which they stay unlike; the folders around them cannot be renamed. `opened` are folders of which only some
    names may change, `kept` the others in them (`names.py`). `terminals`: give it a devpts of its own.
    Return a descriptor for `mask_watch.opened`, or None.
    """
    aside = {name: os.open(f"{scratch}/{name}", os.O_PATH | os.O_CLOEXEC) for name in ("tmp", "shm")}
    watching = _mask(secrets)
    again = [place for place in writable if os.path.lexists(place)]
    pins = _around(protected, again)
    for place in sorted({*again, *opened, *pins, *protected, *kept}):  # the outer ones first
        bind(place, place)
    places = {"/tmp": "tmp", "/dev/shm": "shm"}
    if not os.path.islink("/var/tmp") and os.path.isdir("/var/tmp"):
        places["/var/tmp"] = "tmp"
    for place, name in places.items():
        bind(f"/proc/self/fd/{aside[name]}", place)
    if terminals:
        _mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,mode=620,ptmxmode=666")
    set_read_only("/", recursive=True)
    for place in (*again, *opened, *pins, *places):
        set_writable(place)
    for fd in aside.values():
        os.close(fd)
    return watching


def bind(source, target):
    _mount(source, target, None, MS_BIND | MS_REC)


def set_read_only(place, *, recursive=False):
    _set_attributes(place, _Attributes(set=MOUNT_ATTR_RDONLY), AT_RECURSIVE if recursive else 0)


def set_writable(place):
    _set_attributes(place, _Attributes(clear=MOUNT_ATTR_RDONLY), 0)


def _mask(secrets):
    """Mount a notice over each secret file, an unreadable folder over each secret folder; watch the notices."""
    # On a file system of their own, which becomes read-only: their owner could change modes otherwise. The program's
    # /tmp is mounted over it later.
    _mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=755,size=1m")
    os.mkdir("/tmp/folder", 0)
    count = min(len(secrets), mask_watch.MAX_WATCHED + 1)  # the last for all others
    masks = [f"/tmp/{number}" for number in range(count)]
    for mask in masks:
        with open(mask, "wb") as file:
            file.write(NOTICE)
    watching = mask_watch.watch(masks) if masks else None
    for number, path in enumerate(secrets):
        if os.path.lexists(path):
            bind("/tmp/folder" if os.path.isdir(path) else masks[min(number, len(masks) - 1)], path)
    _mount(None, "/tmp", None, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    return watching


def _around(protected, writable):
    """Return the folders between a writable one and what is protected below it, the outer ones first."""
    # A folder that is a mount point cannot be renamed; otherwise a new one could take the place of a protected path.
    pins = set()
    for path in protected:
        tops = [top for top in writable if path.startswith(top + "/")]
        parent = os.path.dirname(path)
        while tops and parent not in tops:
            pins.add(parent)
            parent = os.path.dirname(parent)
    return sorted(pins)


def _mount(source, target, kind, flags, data=None):
    arguments = (source and os.fsencode(source), os.fsencode(target), kind and kind.encode())
    check(libc.mount(*arguments, ctypes.c_ulong(flags), data and data.encode()), f"mount {target}")


def _set_attributes(place, attributes, flags):
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    path = os.fsencode(place)
    done = libc.syscall(MOUNT_SETATTR, AT_FDCWD, path, ctypes.c_uint(flags), ctypes.byref(attributes), size)
    check(done, f"the mount of {place}")

"""A mount namespace for one program: secrets masked, protected paths read-only, its own /tmp, all else read-only.

It is made between fork and exec, by a process with CAP_SYS_ADMIN in its user namespace, or else in a new one.
"""

import os

from . import mask_watch
from .closed_view import show_only
from .mounts import (
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    MS_REMOUNT,
    bind,
    make_private,
    mount,
    set_all_read_only,
    set_writable,
)
from .syscalls import CAP_SYS_ADMIN, PR_SET_DUMPABLE, check, has_capability, libc

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000

NOTICE = b"# Masked by Handrail: this program may not read this file.\n"


def own_namespace():
    """Enter a mount namespace in which this process may mount, and from which nothing leads back."""
    if has_capability(CAP_SYS_ADMIN):
        check(libc.unshare(CLONE_NEWNS), "a mount namespace")
    else:
        uid, gid = os.getuid(), os.getgid()
        # The maps of a process that is not dumpable, as a child of the init is until its exec, belong to root.
        check(libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), "its own maps")
        check(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS), "a user namespace")
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    make_private()


def works():
    """Return whether `own_namespace` and a mount work here, by trying both in a child."""
    child = os.fork()
    if child == 0:
        try:
            own_namespace()
            mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=4k")
            set_all_read_only()
            os._exit(1 if os.access("/tmp", os.W_OK) else 0)
        except BaseException:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def make(*, scratch, secrets, protected, writable, terminals, opened=(), kept=(), shown=None):
    """Make the view of this process, which is in a namespace of its own.

    `scratch` is a folder with `tmp` and `shm`, shown as /tmp and /dev/shm. `protected` are paths below `writable`
    ones, which they stay unlike; the folders around them cannot be renamed. `opened` are folders of which only some
    names may change, `kept` the others in them (`names.py`). `terminals`: give it a devpts of its own.
    `shown`: the only paths that it sees, where no Landlock forbids others; None: it sees all that is not masked.
    Return a descriptor for `mask_watch.opened`, or None.
    """
    aside = {name: os.open(f"{scratch}/{name}", os.O_PATH | os.O_CLOEXEC) for name in ("tmp", "shm")}
    if shown is not None:
        show_only([*shown, "/var/tmp"])
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
        mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,mode=620,ptmxmode=666")
    set_all_read_only()
    for place in (*again, *opened, *pins, *places):
        set_writable(place)
    for fd in aside.values():
        os.close(fd)
    return watching


def _mask(secrets):
    """Mount a notice over each secret file, an unreadable folder over each secret folder; watch the notices."""
    # On a file system of their own, which becomes read-only: their owner could change modes otherwise. The program's
    # /tmp is mounted over it later.
    mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=755,size=1m")
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
    mount(None, "/tmp", None, MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
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

"""Which masks a held program opened: the kernel tells by inotify, and the init reads it when the program has ended.

Masks are watched in the child before its exec, while it still may; the init gets the descriptor.
"""

import os
import struct

from .syscalls import check, libc

MAX_WATCHED = 64  # masks that are told apart; others are not watched
IN_OPEN, IN_NONBLOCK, IN_CLOEXEC = 0x20, os.O_NONBLOCK, os.O_CLOEXEC
EVENT = "=iIII"  # watch, mask, cookie, length of the name that follows
BUFFER = 1 << 16


def watch(masks):
    """Return a descriptor that tells of the first masks when they are opened; None if the kernel gives none."""
    try:
        fd = check(libc.inotify_init1(IN_NONBLOCK | IN_CLOEXEC), "inotify")
    except OSError:
        return None
    for mask in masks[:MAX_WATCHED]:  # the kernel numbers them from 1
        if libc.inotify_add_watch(fd, os.fsencode(mask), IN_OPEN) < 0:
            break
    return fd


def opened(fd, secrets):
    """Return [{kind, what}] of the secrets whose masks were opened; `secrets` as they were masked, in order."""
    found = set()
    while data := _read(fd):
        while data:
            number, mask, _cookie, length = struct.unpack_from(EVENT, data)
            if mask & IN_OPEN:  # and not the end of their file system
                found.add(number)
            data = data[struct.calcsize(EVENT) + length :]
    return [{"kind": "read", "what": path} for number, path in enumerate(secrets, 1) if number in found]


def _read(fd):
    try:
        return os.read(fd, BUFFER)
    except BlockingIOError:
        return b""

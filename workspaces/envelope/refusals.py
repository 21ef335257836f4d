"""What the seccomp filter of a held program refused: told by the kernel to the filter's listener, and answered there.

The answer is always a refusal, so it does not matter that the program could change its memory meanwhile.
"""

import ctypes
import errno
import fcntl
import os
import select
import struct

from . import seccomp

RECEIVE, SEND = 0xC0502100, 0xC0182101
NOTIFICATION = "=QIIiIQ6Q"  # id, pid, flags, then struct seccomp_data: number, architecture, instruction, arguments
MAX_KEPT = 20
FAMILIES = {2: "IPv4", 10: "IPv6", 16: "netlink", 17: "packet", 38: "crypto (AF_ALG)", 40: "virtual machine (vsock)"}
TYPES = {1: "TCP", 2: "UDP", 3: "raw"}


class Refusals:
    """Answers the listener of one program, and keeps what was refused: [{kind, what}], each once."""

    def __init__(self, listener, machine=None):
        self.listener = listener
        self.names = seccomp.names_of(machine or os.uname().machine)
        self.kept = []

    def answer(self):
        """Refuse the call that waits; return False when no process of the program is left."""
        poll = select.poll()
        poll.register(self.listener, select.POLLIN)
        events = dict(poll.poll(0)).get(self.listener, 0)
        if not events & select.POLLIN:  # before Linux 6.11 receiving would block for ever when no process is left
            return not events
        notification = bytearray(struct.calcsize(NOTIFICATION))
        try:
            fcntl.ioctl(self.listener, RECEIVE, notification)
        except OSError as error:
            return error.errno in (errno.ENOENT, errno.EINTR, errno.EAGAIN)
        fields = struct.unpack(NOTIFICATION, notification)
        name = self.names.get(fields[3], f"system call {fields[3]}")
        refusal, number = describe(name, fields[6:])
        if refusal not in self.kept and len(self.kept) < MAX_KEPT:
            self.kept.append(refusal)
        try:
            fcntl.ioctl(self.listener, SEND, struct.pack("=QqiI", fields[0], 0, -number, 0))
        except OSError as error:
            return error.errno == errno.ENOENT  # the caller was killed meanwhile
        return True

    def close(self):
        os.close(self.listener)


def describe(name, arguments):
    """Return (refusal, errno) of a refused call."""
    numbers = [ctypes.c_uint32(argument).value for argument in arguments]
    if name in ("socket", "socketpair"):
        kind = TYPES.get(numbers[1] & seccomp.SOCK_TYPE_MASK, "other")
        family = FAMILIES.get(numbers[0], f"family {numbers[0]}")
        what = "unix" if numbers[0] == seccomp.AF_UNIX else f"{family} {kind}" if numbers[0] in (2, 10) else family
        known = numbers[0] in (seccomp.AF_UNIX, seccomp.AF_INET, seccomp.AF_INET6)
        return {"kind": "socket", "what": what}, errno.EACCES if known else errno.EAFNOSUPPORT
    if name == "ioctl":
        return {"kind": "syscall", "what": "input into a terminal (TIOCSTI)"}, errno.EPERM
    mode = seccomp.OPENS[name][1] if name in seccomp.OPENS else seccomp.OF_A_MODE.get(name)
    if mode is not None and numbers[mode] & seccomp.SET_ID_BITS:
        return {"kind": "syscall", "what": f"set-user-ID or set-group-ID bit ({name})"}, errno.EPERM
    # Libraries use something else when the kernel has no io_uring, but give up when it is forbidden.
    return {"kind": "syscall", "what": name}, errno.ENOSYS if name[:8] == "io_uring" else errno.EPERM

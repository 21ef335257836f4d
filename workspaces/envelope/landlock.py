"""Landlock by its system calls: a ruleset that allows hierarchies of files and TCP ports, and forbids all else.

The calls have these numbers on every architecture. A right that the kernel does not know is left out of the ruleset;
`ring.py` decides whether what is left is enough.
"""

import ctypes
import errno
import os
import stat

from .syscalls import check, libc

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION = 1  # flag of CREATE_RULESET
PATH_BENEATH, NET_PORT = 1, 2

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, REMOVE_DIR, REMOVE_FILE = (1 << bit for bit in range(6))
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << bit for bit in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
BIND_TCP, CONNECT_TCP = 1, 2
SCOPE_ABSTRACT_SOCKETS, SCOPE_SIGNALS = 1, 2

READ = EXECUTE | READ_FILE | READ_DIR
CHANGE = REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM | REFER
WRITE = READ | WRITE_FILE | TRUNCATE | CHANGE
DEVICE = READ_FILE | WRITE_FILE | IOCTL_DEV
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # what a rule for a file that is no folder may hold

FILE_RIGHTS_BY_ABI = {1: (1 << 13) - 1, 2: REFER, 3: TRUNCATE, 5: IOCTL_DEV}
PORTS_ABI, SCOPES_ABI = 4, 6


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("ports", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _Port(ctypes.Structure):
    _fields_ = (("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64))


def abi():
    """Return the version of Landlock that this kernel offers and lets us use, 0 for none."""
    return max(0, libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(VERSION)))


class Ruleset:
    """What a process will be allowed, until `restrict_self`; it leaves be what is not asked for."""

    def __init__(self, version, *, files=True, ports=False, scopes=False, signals=False):
        self.files = sum(rights for since, rights in FILE_RIGHTS_BY_ABI.items() if since <= version) if files else 0
        self.ports = BIND_TCP | CONNECT_TCP if ports and version >= PORTS_ABI else 0
        scoped = SCOPE_ABSTRACT_SOCKETS | (0 if signals else SCOPE_SIGNALS)
        self.scopes = scoped if scopes and version >= SCOPES_ABI else 0
        handled = _Ruleset(self.files, self.ports, self.scopes)
        # An older kernel takes the longer structure as long as what it does not know is zero.
        size = ctypes.c_size_t(ctypes.sizeof(handled))
        self.fd = check(libc.syscall(CREATE_RULESET, ctypes.byref(handled), size, ctypes.c_uint32(0)), "a ruleset")

    def allow(self, path, rights, *, follow=True):
        """Allow these rights on a file, or on a folder and all below it; return False if it is not there.

        Without `follow`, a symlink is not followed, and nothing is allowed for it.
        """
        try:
            fd = os.open(path, os.O_PATH | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP):
                return False  # what cannot be reached needs no rule
            raise
        try:
            mode = os.fstat(fd).st_mode
            if stat.S_ISLNK(mode):
                return False
            if not stat.S_ISDIR(mode):
                rights &= OF_FILES
            rule = _Beneath(rights & self.files, fd)
            self._add(PATH_BENEATH, rule, path)
        finally:
            os.close(fd)
        return True

    def allow_port(self, port, rights):
        self._add(NET_PORT, _Port(rights & self.ports, port), f"port {port}")

    def _add(self, kind, rule, what):
        done = libc.syscall(ADD_RULE, self.fd, ctypes.c_int(kind), ctypes.byref(rule), ctypes.c_uint32(0))
        check(done, f"a rule for {what}")

    def restrict_self(self):
        """Hold this process and what it starts to the ruleset, irrevocably. Needs no_new_privs."""
        check(libc.syscall(RESTRICT_SELF, self.fd, ctypes.c_uint32(0)), "the ruleset")
        os.close(self.fd)

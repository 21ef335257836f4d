"""A seccomp filter for a held program: system calls and sockets that its envelope does not need are refused.

A classic BPF program, made for x86_64 and aarch64. What it refuses is told to the holder of the filter's listener
(`refusals.py`), which answers for the kernel. A call of another architecture kills the process.
"""

import ctypes
import errno
import os
import socket
import struct

from .syscalls import check, libc, no_new_privileges

SET_MODE_FILTER, NEW_LISTENER = 1, 1 << 3
KILL_PROCESS, ALLOW, ERRNO, USER_NOTIF = 0x80000000, 0x7FFF0000, 0x00050000, 0x7FC00000
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
LOAD, AND, RETURN = 0x20, 0x54, 0x06
EQUAL, GREATER_OR_EQUAL, ANY_BIT = 0x15, 0x35, 0x45
X32_BIT = 0x40000000
AF_NETLINK, AF_UNIX, AF_INET, AF_INET6 = 16, 1, 2, 10
NETLINK_ROUTE, SOCK_TYPE_MASK, MSG_FASTOPEN = 0, 0xF, 0x20000000
NEW_NAMESPACES = 0x7E020080  # every CLONE_NEW… flag of clone(2) and unshare(2)
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
SET_ID_BITS = 0o6000  # set-user-ID and set-group-ID: others who run such a file act as its owner
CREATES = 0o100 | 0x400000  # O_CREAT and O_TMPFILE, without which a call that opens ignores its mode

# name: (number on x86_64, on aarch64); None where the architecture has none
REFUSED = {
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "lookup_dcookie": (212, 18),
    "uselib": (134, None),
    "iopl": (172, None),
    "ioperm": (173, None),
}
CHECKED = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "unshare": (272, 97),
    "ioctl": (16, 29),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    "seccomp": (317, 277),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "openat2": (437, 437),
    "open": (2, None),
    "openat": (257, 56),
    "creat": (85, None),
    "mknod": (133, None),
    "mknodat": (259, 33),
}
# Calls that change the mode, owner, times or attributes of a file, which Landlock does not check.
OF_ATTRIBUTES = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}
# Calls that act on a process, or thread, of any number of the same user: the argument that names it, where 0 is the
# caller, and the first argument's value for all processes of the user.
OF_A_PROCESS = {
    "setpriority": (1, 2),
    "ioprio_set": (1, 3),
    "prlimit64": (0, None),
    "sched_setaffinity": (0, None),
    "sched_setattr": (0, None),
    "sched_setparam": (0, None),
    "sched_setscheduler": (0, None),
}
# The argument that holds the mode; for those that open, also the one with the flags, before it.
OF_A_MODE = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2}
OPENS = {"open": (1, 2), "openat": (2, 3)}
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}


def probe():
    """Return (whether a filter refuses calls here, whether its listener can be had), by trying both in children."""
    if os.uname().machine not in MACHINES:
        return False, False
    listener = _refuses(listener=True)
    return listener or _refuses(listener=False), listener


def _refuses(*, listener):
    child = os.fork()
    if child == 0:
        try:
            no_new_privileges()
            install(build((), os.uname().machine, listener=listener), listener=listener)
            os._exit(0 if _socket_is_refused() else 1)
        except BaseException:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def _socket_is_refused():
    try:
        socket.socket(AF_UNIX).close()
    except PermissionError:
        return True
    return False


def _number(name, column=None):
    column = MACHINES[os.uname().machine][0] if column is None else column
    return (REFUSED | CHECKED | OF_ATTRIBUTES)[name][column]


def names_of(machine):
    """Return {number: name} of the system calls that the filter looks at."""
    column = MACHINES[machine][0]
    return {
        numbers[column]: name
        for name, numbers in (REFUSED | CHECKED | OF_ATTRIBUTES).items()
        if numbers[column] is not None
    }


class _Program:
    """A BPF program made of blocks: each looks at one system call and ends in a verdict."""

    def __init__(self):
        self.instructions = []

    def add(self, code, operand, then=0, otherwise=0):
        self.instructions.append(struct.pack("=HBBI", code, then, otherwise, operand))

    def load(self, offset):
        self.add(LOAD, offset)

    def argument(self, index, mask=None):
        """Load the low half of an argument: all of these arguments are 32 bits wide to the kernel."""
        self.load(ARGUMENTS + 8 * index)
        if mask is not None:
            self.add(AND, mask)

    def verdict(self, value):
        self.add(RETURN, value)

    def when(self, number, block):
        """Run a block, which must end in a verdict, for one system call; the number stays loaded for the others."""
        inner = _Program()
        block(inner)
        self.add(EQUAL, number, 0, len(inner.instructions))
        self.instructions += inner.instructions

    def verdict_if(self, code, operand, value):
        self.add(code, operand, 0, 1)
        self.verdict(value)


def build(network, machine, *, attributes=True, extended=True, listener=True):
    """Return the filter's instructions for an envelope's `network`, as bytes.

    `attributes`: allow the change of files' modes, owners, times and attributes; `extended`: among them, of extended
    ones. What is refused waits for the answer of a listener, or without one fails with EPERM.
    """
    column, architecture = MACHINES[machine]
    refuse = USER_NOTIF if listener else ERRNO | errno.EPERM
    program = _Program()
    program.load(ARCHITECTURE)
    program.add(EQUAL, architecture, 1, 0)
    program.verdict(KILL_PROCESS)
    program.load(NUMBER)
    if machine == "x86_64":
        program.verdict_if(GREATER_OR_EQUAL, X32_BIT, ERRNO | errno.ENOSYS)
    blocks = {
        # glibc falls back to clone, whose flags can be seen
        "clone3": lambda block: block.verdict(ERRNO | errno.ENOSYS),
        "clone": lambda block: _refuse_flags(block, 0, NEW_NAMESPACES, refuse),
        "unshare": lambda block: _refuse_flags(block, 0, NEW_NAMESPACES, refuse),
        "ioctl": lambda block: _refuse_ioctls(block, refuse),
        "socket": lambda block: _sockets(block, network, refuse),
        "socketpair": lambda block: _pairs(block, refuse),
    }
    if network and "loopback" not in network:
        # With this flag a connection is opened without the hook by which Landlock checks ports.
        for name, index in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
            blocks[name] = lambda block, index=index: _refuse_flags(block, index, MSG_FASTOPEN, refuse)
    for name, (index, of_user) in OF_A_PROCESS.items():
        blocks[name] = lambda block, index=index, of_user=of_user: _refuse_others(block, index, of_user, refuse)
    for name, index in OF_A_MODE.items():
        if attributes or name not in OF_ATTRIBUTES:
            blocks[name] = lambda block, index=index: _refuse_flags(block, index, SET_ID_BITS, refuse)
    for name, indexes in OPENS.items():
        blocks[name] = lambda block, indexes=indexes: _refuse_created(block, *indexes, refuse)
    # Its mode lies in memory, which no filter reads; all that know the call do without it on older kernels.
    blocks["openat2"] = lambda block: block.verdict(ERRNO | errno.ENOSYS)
    for name, block in blocks.items():
        if (number := _number(name, column)) is not None:
            program.when(number, block)
    # A listener of its own would let the program answer, with "continue", what is refused here.
    program.when(_number("seccomp", column), lambda block: _refuse_flags(block, 1, NEW_LISTENER, refuse))
    closed = [name for name in OF_ATTRIBUTES if not attributes or ("attr" in name and not extended)]
    for numbers in [*REFUSED.values(), *(OF_ATTRIBUTES[name] for name in closed)]:
        if numbers[column] is not None:
            program.verdict_if(EQUAL, numbers[column], refuse)
    program.verdict(ALLOW)
    return b"".join(program.instructions)


def _refuse_flags(block, index, flags, refuse):
    block.argument(index)
    block.verdict_if(ANY_BIT, flags, refuse)
    block.verdict(ALLOW)


def _refuse_created(block, flags, mode, refuse):
    block.argument(flags)
    block.add(ANY_BIT, CREATES, 1, 0)
    block.verdict(ALLOW)
    _refuse_flags(block, mode, SET_ID_BITS, refuse)


def _refuse_others(block, index, of_user, refuse):
    """Allow a call for the caller itself, which argument `index` then names with 0."""
    block.argument(index)
    block.add(EQUAL, 0, 1, 0)
    block.verdict(refuse)
    if of_user is not None:
        block.argument(0)
        block.verdict_if(EQUAL, of_user, refuse)
    block.verdict(ALLOW)


def _refuse_ioctls(block, refuse):
    block.argument(1)
    block.verdict_if(EQUAL, TIOCSTI, refuse)
    block.verdict_if(EQUAL, TIOCLINUX, refuse)
    block.verdict(ALLOW)


def _sockets(block, network, refuse):
    """Allow unix sockets and TCP with a network, and asking the kernel for addresses; nothing without one."""
    block.argument(0)
    if not network:
        # Without notice: looking up a user's name tries these first, then reads the file.
        block.verdict_if(EQUAL, AF_UNIX, ERRNO | errno.EACCES)
        block.verdict_if(EQUAL, AF_NETLINK, ERRNO | errno.EACCES)
        block.verdict(refuse)
        return
    block.verdict_if(EQUAL, AF_UNIX, ALLOW)
    block.add(EQUAL, AF_NETLINK, 0, 3)
    block.argument(2)
    block.verdict_if(EQUAL, NETLINK_ROUTE, ALLOW)
    # Still the protocol for netlink, the family for others: a netlink protocol must not pass for a family.
    block.argument(0)
    block.add(EQUAL, AF_INET, 2, 0)
    block.add(EQUAL, AF_INET6, 1, 0)
    block.verdict(refuse)
    block.argument(1, SOCK_TYPE_MASK)
    block.add(EQUAL, int(socket.SOCK_STREAM), 1, 0)
    block.verdict(refuse)
    block.argument(2)  # not MPTCP, SCTP and others, whose ports Landlock does not check
    block.verdict_if(EQUAL, 0, ALLOW)
    block.verdict_if(EQUAL, int(socket.IPPROTO_TCP), ALLOW)
    block.verdict(refuse)


def _pairs(block, refuse):
    block.argument(0)
    block.verdict_if(EQUAL, AF_UNIX, ALLOW)
    block.verdict(refuse)


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def install(instructions, *, listener):
    """Install the filter in this process for good; with `listener`, return the descriptor of its listener."""
    memory = ctypes.create_string_buffer(instructions, len(instructions))
    program = _Filter(len(instructions) // 8, ctypes.cast(memory, ctypes.c_void_p))
    flags = NEW_LISTENER if listener else 0
    return check(libc.syscall(_number("seccomp"), SET_MODE_FILTER, flags, ctypes.byref(program)), "the filter")

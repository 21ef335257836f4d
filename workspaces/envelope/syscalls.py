"""The C library as this package calls it, and the errors of its calls."""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)

PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 38, 47, 4
LINUX_CAPABILITY_VERSION_3 = 0x20080522
CAP_SYS_ADMIN = 21


def check(result, what):
    """Return the result of a call; raise OSError with its errno if it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def no_new_privileges():
    check(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")


def has_capability(number):
    """Return whether this process has a capability in its user namespace."""
    with open("/proc/self/status", "rb") as file:
        effective = next(line for line in file if line.startswith(b"CapEff:"))
    return bool(int(effective.split()[1], 16) >> number & 1)


def drop_capabilities():
    """Give up every capability; with no_new_privs no later exec brings one back."""
    libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)  # kernels without ambient capabilities refuse
    header = (ctypes.c_uint32 * 2)(LINUX_CAPABILITY_VERSION_3, 0)
    check(libc.capset(header, (ctypes.c_uint32 * 6)()), "drop the capabilities")

"""What the kernel is under which this program runs, and what it holds; standard library only, for canaries."""

import ctypes
import os
import resource

SYSLOG_ACTION_READ_ALL = 3
FORKS = 40  # some are counted of what made the pod


def is_gvisor():
    """Return whether the kernel says that it is gVisor's; any other refuses to be asked."""
    text = ctypes.create_string_buffer(1 << 16)
    size = ctypes.CDLL(None, use_errno=True).klogctl(SYSLOG_ACTION_READ_ALL, text, len(text))
    return size > 0 and b"gVisor" in text.raw[:size]


def abilities():
    """Return what programs can be held to an envelope by here."""
    from init.held_programs import ring

    return ring.probe()


def holds_processes():
    """Return whether a limit on processes counts those of this kernel, or of this user namespace, alone."""
    resource.setrlimit(resource.RLIMIT_NPROC, (FORKS, FORKS))
    children = []
    read_end, write_end = os.pipe()
    try:
        for _ in range(FORKS + 1):
            pid = os.fork()
            if pid == 0:
                os.close(write_end)
                os.read(read_end, 1)  # until the parent has seen enough
                os._exit(0)
            children.append(pid)
    except BlockingIOError:
        return len(children) > 0  # one at least: nobody else's processes count
    finally:
        os.close(write_end)
        for pid in children:
            os.waitpid(pid, 0)
    return False

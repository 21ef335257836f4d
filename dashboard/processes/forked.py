"""Child processes forked from this one: they start with all modules imported and share their memory.

Only for a single-threaded process: a lock held by another thread would stay locked in the child forever.
"""

import atexit
import ctypes
import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
_M_ARENA_MAX = -8  # of malloc.h
_RESET = (signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGALRM)


class Child:
    """A forked child process; the kernel kills it when its parent ends."""

    def __init__(
        self, name: str, main: Callable[[], None], *, output: int | None = None, keep: Iterable[int] = (), group=False
    ):
        """Fork and call `main` in the child, which `ps` shows as "handrail NAME".

        The child keeps descriptors 0 to 2 and those in `keep`, and no others. `output`: descriptor for its stdout and
        stderr; `group`: make it the leader of its own process group.
        """
        if threading.active_count() > 1:
            raise RuntimeError(f"{name} cannot be forked from a process of several threads")
        sys.stdout.flush()
        sys.stderr.flush()
        parent, everything = os.getpid(), signal.valid_signals()
        # A signal must not reach the child while it still has the parent's handlers.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, everything)
        try:
            self.pid = os.fork()
            if self.pid == 0:
                _become(name, main, parent, output, set(keep), group)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if group:
            _lead_group(self.pid)  # parent and child both call setpgid, so neither depends on the other being first
        self.ended = os.pidfd_open(self.pid)  # becomes readable when the child ends
        self.returncode: int | None = None

    def has_ended(self) -> bool:
        """Check without reaping: while the child is a zombie, its process group id cannot be reused."""
        if self.returncode is not None:
            return True
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def send_signal(self, number: int):
        if self.returncode is None:
            os.kill(self.pid, number)

    def wait(self) -> int:
        """Return the exit status, or minus the number of the signal that ended the child."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
            os.close(self.ended)
        return self.returncode


def _lead_group(pid: int):
    try:
        os.setpgid(pid, pid)
    except (PermissionError, ProcessLookupError):
        pass  # it has already called exec, or has ended


def _become(name: str, main, parent: int, output: int | None, keep: set[int], group: bool):
    """Run the child; never returns, since the frames above belong to the parent."""
    status = 1
    try:
        gc.freeze()  # collecting the parent's garbage would close descriptors whose numbers are in use here
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # glibc would give each thread a heap of its own; Python lets one thread allocate at a time.
        getattr(_libc, "mallopt", lambda *_: None)(_M_ARENA_MAX, 1)
        if os.getppid() != parent:
            os._exit(1)  # the parent died before prctl took effect
        if group:
            os.setpgid(0, 0)
        _reset_signals()
        _open_only(output, keep)
        _show_as(f"handrail {name}")
        main()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        _end(status)


def _end(status: int):
    """Exit as the interpreter does: wait for threads, run atexit handlers, flush."""
    try:
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _reset_signals():
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in _RESET:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def _open_only(output: int | None, keep: set[int]):
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    if output is not None:
        os.dup2(output, 1)
        os.dup2(output, 2)
    last = 2
    for fd in sorted(keep):
        os.closerange(last + 1, fd)
        os.set_inheritable(fd, True)
        last = fd
    os.closerange(last + 1, os.sysconf("SC_OPEN_MAX"))
    sys.stdout.reconfigure(line_buffering=True)


def _show_as(words: str):
    """Set the process title; the argv that `ps` shows is otherwise the parent's."""
    _libc.prctl(_PR_SET_NAME, words.replace(" ", "-").encode()[:15], 0, 0, 0)
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])
    if 0 < start < end:
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, words.encode(), min(len(words), end - start - 1))

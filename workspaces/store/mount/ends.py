"""What ends a mount besides a signal of a person: the end of the process, or of the Run, that it was made for."""

import fcntl
import os
import signal
import sys
import threading
from pathlib import Path


def end_here() -> None:
    """End this process as SIGTERM does, from any of its threads."""
    os.kill(os.getpid(), signal.SIGTERM)


def end_with_input() -> None:
    """End this process with the one at the other end of standard input, however that ends."""

    def read() -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        end_here()

    threading.Thread(target=read, daemon=True).start()


def end_with_lock(path: Path) -> None:
    """End this process when nobody has an exclusive lock on the file any more."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def wait() -> None:
        fcntl.flock(fd, fcntl.LOCK_SH)
        os.close(fd)
        end_here()

    threading.Thread(target=wait, daemon=True).start()

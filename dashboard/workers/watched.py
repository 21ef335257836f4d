"""Have the warden end what this process starts, if this process is killed before it could."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from dashboard.workers import warden


@contextmanager
def watched() -> Iterator[Callable[[str], None]]:
    """Yield `tell(line)` for the warden: `+ID` and `-ID` of a process group, `+/FOLDER` and `-/FOLDER` of a folder."""
    command = [sys.executable, "-I", "-S", warden.__file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, bufsize=0, start_new_session=True) as watching:

        def tell(line: str) -> None:
            with suppress(BrokenPipeError):  # the warden was killed
                watching.stdin.write(f"{line}\n".encode())

        yield tell

"""The warden: kills the process groups of a master that died without ending them (kill -9, out of memory).

The master is the supervisor with its parts, or the runner with the git processes that fetch or push for it. The warden
runs in a session of its own, as a plain file, so that it imports nothing of ours. Its standard input is a pipe that
only its master holds: the line `+ID` adds a group, `-ID` removes it, and end of file means that the master is gone.
`+/FOLDER` adds a folder to delete then, such as one with a key for git; `-/FOLDER` removes it from the list.
Sandboxes and host processes live in sessions of their own, so they are never in such a group.
"""

import os
import shutil
import signal
import sys


def watch(lines) -> tuple[set[int], set[str]]:
    """Read lines until the master is gone; return the groups and the folders it left behind."""
    groups, folders = set(), set()
    for line in lines:
        what = line[1:].rstrip("\n")
        left, of = (folders, what) if what.startswith("/") else (groups, int(what))
        (left.add if line.startswith("+") else left.discard)(of)
    return groups, folders


def main():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups, folders = watch(sys.stdin)
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

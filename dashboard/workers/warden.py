"""The warden: kills the process groups of a master that died without ending them (kill -9, out of memory).

The master is the supervisor with its parts, or the runner with the git processes that fetch or push for it. The warden
runs in a session of its own, as a plain file, so that it imports nothing of ours. Its standard input is a pipe that
only its master holds: the line `+ID` adds a group, `-ID` removes it, and end of file means that the master is gone.
Sandboxes and host processes live in sessions of their own, so they are never in such a group.
"""

import os
import signal
import sys


def watch(lines) -> set[int]:
    """Read lines until the master is gone; return the groups it left behind."""
    groups = set()
    for line in lines:
        (groups.add if line.startswith("+") else groups.discard)(int(line[1:]))
    return groups


def main():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    for group in watch(sys.stdin):
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            pass


if __name__ == "__main__":
    main()

"""The warden: ends the process groups of somebody who died without ending them (kill -9, out of memory): of the
supervisor its parts, of the runner the git that fetches or pushes for it.

A process of its own, in a session of its own, run as a plain file so that it needs nothing of ours. Standard input is a
pipe that only its master holds: a line `+ID` names a group, `-ID` forgets it, and the end of the pipe is the end of the
master. Sandboxes and host processes live in sessions of their own, so they are never in such a group.
"""

import os
import signal
import sys


def watch(lines) -> set[int]:
    """Read until the master is gone; the groups that it left behind."""
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

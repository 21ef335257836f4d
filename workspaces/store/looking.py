"""Runs one program in a guest that only looks at the tree: as the agent's user, and out of reach of its programs.

It sees /workspace and the home read-only, no network and no other process, and is gone with everything that it started
when its time is over. Whatever the tree makes it do there reaches nothing.
"""

import os
import subprocess

from .wire import Wire

ANSWER_BYTES = 4 << 20
_HIDES = (
    "mount -o remount,bind,ro /workspace && mount -o remount,bind,ro /home/agent && "
    "mount -t tmpfs -o size=0,mode=000 none /run/handrail/disks && mount -t tmpfs -o mode=1777 none /tmp && "
    'cd /workspace && exec setpriv --reuid "$0" --regid "$0" --clear-groups --no-new-privs -- "$@"'
)
_ALONE = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc", "--mount-proc", "--"]


class Looking:
    """`root` is the open folder of the tree, whose owner the program runs as."""

    def __init__(self, wire: Wire, root: int):
        self.wire, self.root = wire, root

    def answer(self, head: dict, body: bytes) -> None:
        argv = [*_ALONE, "/bin/sh", "-c", _HIDES, str(os.fstat(self.root).st_uid), *head["argv"]]
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
                timeout=head["seconds"],
            )
        except subprocess.TimeoutExpired:
            self.wire.send({"end": True, "late": True})
            return
        self.wire.send({"end": True, "late": False}, done.stdout[:ANSWER_BYTES])

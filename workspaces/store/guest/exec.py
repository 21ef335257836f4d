"""Run one read-only program in a guest, as the agent's user but isolated from the agent's programs.

It sees /workspace and the home read-only, no network and no other process, and is killed with all its children at its
timeout. So code that the tree makes it run cannot affect anything outside.
"""

import os
import subprocess

from .protocol import Wire

ANSWER_BYTES = 4 << 20
_HIDES = (
    "mount -o remount,bind,ro /workspace && mount -o remount,bind,ro /home/agent && "
    "mount -t tmpfs -o size=0,mode=000 none /run/handrail/disks && mount -t tmpfs -o mode=1777 none /tmp && "
    'cd /workspace && exec setpriv --reuid "$0" --regid "$0" --clear-groups --no-new-privs -- "$@"'
)
_ALONE = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc", "--mount-proc", "--"]


class ReadOnlyProgram:
    """Run programs as the owner of `root`, the open folder of the tree."""

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

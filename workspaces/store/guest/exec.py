"""Run one read-only program in a guest, as the agent's user but isolated from the agent's programs.

It sees /workspace and the home read-only, no network and no other process, and is killed with all its children at its
timeout. So code that the tree makes it run cannot affect anything outside.
"""

import os
import subprocess
import tempfile
import threading

from .protocol import FILL, Wire

SAID_BYTES = 2000
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
        """Send the standard output as it comes; the last frame has the exit status and the end of standard error."""
        argv = [*_ALONE, "/bin/sh", "-c", _HIDES, str(os.fstat(self.root).st_uid), *head["argv"]]
        with tempfile.TemporaryFile() as said:
            process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            )
            late = threading.Event()
            timer = threading.Timer(head["seconds"], _end, [process, late])
            timer.start()
            try:
                while piece := process.stdout.read(FILL):
                    self.wire.send({"data": True}, piece)
                status = process.wait()
            finally:
                timer.cancel()
                process.kill()
                process.wait()
                process.stdout.close()
            said.seek(max(0, said.seek(0, os.SEEK_END) - SAID_BYTES))
            words = said.read().decode("utf-8", "replace")
        self.wire.send({"end": True, "late": late.is_set(), "status": status, "said": words})


def _end(process: subprocess.Popen, late: threading.Event) -> None:
    late.set()
    process.kill()  # unshare --kill-child ends all that it started

"""The shim's part in suspending a program: wait while its memory is kept, and continue with it in another Run.

The runner sends:

  {op: suspend}          the memory is about to be kept: hold typed input back
  {op: suspended}        the memory was kept: check whether the Run has ended
  {op: resume, address}  another Run was resumed from the memory; its programs are still frozen
  {op: discard, why}     the memory will never be resumed

`suspended`, `resume` and `discard` do not affect a program that is running.
"""

import os
import select
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from workspaces.drivers import cgroups
from workspaces.drivers.base import Address
from workspaces.drivers.init_client import InitClient, InitGone, InitRefused

from .record import replace_spec

OPS = ("suspend", "suspended", "resume", "discard")
ADOPT_TIMEOUT_S = 60.0  # a guest that was just resumed is slow, and a program not adopted now never is
DRAIN_TIMEOUT_S = 2.0  # the writing end is closed already, so only a slow machine needs this long


class Suspension:
    """The suspend state of a Shim."""

    def __init__(self, shim):
        self.shim = shim
        self.pending = False  # the memory is about to be kept, or was
        self.suspended = False
        self.discarded = ""  # why it will never be resumed
        self._total_s = 0.0
        self._since = 0.0
        self._timeout_left: float | None = None

    def answer(self, request: dict) -> None:
        op = request["op"]
        if op == "suspend":
            self.pending = True
            self.shim.watch_input(False)
            return
        if self.shim.program is None or self.shim.done.is_set():
            return
        if not self.suspended:
            self.shim.read_init()  # the end of its Run may be unread there
        if self.suspended and op == "resume":
            self._resume(Address.of(request["address"]))
        elif self.suspended and op == "discard":
            self._discard(request["why"])

    def begin(self) -> bool:
        """Suspend after the Run has ended. Return False if its memory was not kept."""
        shim = self.shim
        kept = shim.spec.address.memory_file
        if kept is None or not Path(kept).exists():
            return False
        self.pending = self.suspended = True
        self._since = time.monotonic()
        if shim.output_open:
            self._drain_output()
            shim.close_output()
        if shim.program.fd is not None:
            os.close(shim.program.fd)
        shim.init.close()
        self._size = shim.size
        self._timeout_left = shim.stop_clock()
        shim.viewers.wake()
        return True

    def _drain_output(self) -> None:
        fd = self.shim.program.fd
        while select.select([fd], [], [], DRAIN_TIMEOUT_S)[0]:
            if self.shim.read_once() == b"":
                return

    def _resume(self, address: Address) -> None:
        shim = self.shim
        init = InitClient(address.socket, timeout_s=ADOPT_TIMEOUT_S)
        stdio, (cols, rows) = "pty" if shim.spec.pty else "pipe", self._size
        try:
            program = init.adopt(shim.program, shim.init, stdio=stdio, cols=cols, rows=rows)
        except InitRefused as refused:
            init.close()
            self._discard(str(refused))
            return
        except InitGone:
            init.close()
            raise
        shim.spec = replace(shim.spec, address=address)
        with suppress(OSError):  # a full disk: a recovery after this shim's death would not find the program
            replace_spec(shim.folder, shim.spec)
        shim.oom_kills_before = cgroups.oom_kills(address.oom_file)
        shim.init, shim.program = init, program
        self.pending = self.suspended = False
        self._total_s += time.monotonic() - self._since
        shim.watch(self._timeout_left)
        if shim.size != self._size:
            shim.resize(*shim.size)
        shim.watch_input(bool(shim.viewers.keyboard.waiting))
        if shim.cause:
            shim.send_end()
        shim.viewers.wake()

    def _discard(self, why: str) -> None:
        self.discarded = why
        self.shim.done.set()

    def seconds(self) -> float:
        """Return how long the program has been suspended in total."""
        return self._total_s + (time.monotonic() - self._since if self.suspended else 0.0)

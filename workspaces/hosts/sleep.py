"""What a host does while the memory of its program is kept: it waits with it, and goes on with it in another Run.

The runner says when:

  {op: doze}             the memory is about to be kept: what is typed waits
  {op: asleep}           it was kept: look whether the Run is gone
  {op: wake, address}    another Run goes on from it, and its programs do not move yet
  {op: forget, why}      it never will

`asleep`, `wake` and `forget` change nothing of a program that runs on.
"""

import os
import select
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ..drivers import cgroups
from ..drivers.base import Address
from ..drivers.initclient import InitClient, InitGone, InitRefused
from .folder import replace_spec

OPS = ("doze", "asleep", "wake", "forget")
WAKE_S = 60.0  # a guest that has just come back is slow; whoever is not adopted now never is
LAST_WORDS_S = 2.0  # the other end of what is read is gone, so this is only for a slow machine


class Sleep:
    """The part of a Host that knows of sleep."""

    def __init__(self, host):
        self.host = host
        self.dozing = self.asleep = False
        self.forgotten = ""  # why it will never go on
        self._slept = 0.0
        self._since = 0.0
        self._timeout_left: float | None = None

    def answer(self, request: dict) -> None:
        op = request["op"]
        if op == "doze":
            self.dozing = True
            self.host.watch_input(False)
            return
        if self.host.program is None or self.host.done.is_set():
            return
        if not self.asleep:
            self.host.read_init()  # the end of its Run may wait there to be read
        if self.asleep and op == "wake":
            self._wake(Address(**request["address"]))
        elif self.asleep and op == "forget":
            self._forget(request["why"])

    def begin(self) -> bool:
        """The Run is gone: whether its memory was kept, and the program with it."""
        host = self.host
        kept = host.spec.address.memory_file
        if kept is None or not Path(kept).exists():
            return False
        self.dozing = self.asleep = True
        self._since = time.monotonic()
        if host.output_open:
            self._take_last_words()
            host.close_output()
        if host.program.fd is not None:
            os.close(host.program.fd)
        host.init.close()
        self._size = host.size
        self._timeout_left = host.stop_clock()
        host.wake()
        return True

    def _take_last_words(self) -> None:
        fd = self.host.program.fd
        while select.select([fd], [], [], LAST_WORDS_S)[0]:
            if self.host.read_once() == b"":
                return

    def _wake(self, address: Address) -> None:
        host = self.host
        init = InitClient(address.socket, timeout_s=WAKE_S)
        stdio, (cols, rows) = "pty" if host.spec.pty else "pipe", self._size
        try:
            program = init.adopt(host.program, host.init, stdio=stdio, cols=cols, rows=rows)
        except InitRefused as refused:
            init.close()
            self._forget(str(refused))
            return
        except InitGone:
            init.close()
            raise
        host.spec = replace(host.spec, address=address)
        with suppress(OSError):  # a full disk: whoever looks for the program after us does not find it
            replace_spec(host.folder, host.spec)
        host.oom_before = cgroups.oom_kills(address.oom_file)
        host.init, host.program = init, program
        self.dozing = self.asleep = False
        self._slept += time.monotonic() - self._since
        host.listen(self._timeout_left)
        if host.size != self._size:
            host.resize(*host.size)
        host.watch_input(bool(host.keyboard.waiting))
        if host.cause:
            host.ask_for_end()
        host.wake()

    def _forget(self, why: str) -> None:
        self.forgotten = why
        self.host.done.set()

    def seconds(self) -> float:
        """How long it has slept, all in all."""
        return self._slept + (time.monotonic() - self._since if self.asleep else 0.0)

"""Children that outlive their callers are waited for by one thread, so that none stays a zombie.

One thread for each of them would cost a stack per workspace, and hide the event loop among the stacks that a part
prints when it hangs: the interpreter prints 100 threads at most.
"""

import os
import select
import subprocess
import threading


class Reaper:
    """Waits for children in one thread, which is started with the first of them."""

    def __init__(self):
        self._children: dict[int, subprocess.Popen] = {}  # by the descriptor that is readable once the child has ended
        self._poll = None
        self._lock = threading.Lock()

    def add(self, child: subprocess.Popen) -> None:
        """Wait for a child in the background; `child.returncode` is set once it has ended."""
        with self._lock:
            if child.poll() is not None:
                return
            if self._poll is None:
                self._poll = select.epoll()
                threading.Thread(target=self._run, name="reaper", daemon=True).start()
            try:
                ended = os.pidfd_open(child.pid)
            except ProcessLookupError:  # another thread has waited for it
                return
            self._children[ended] = child
            self._poll.register(ended, select.EPOLLIN)

    def _run(self) -> None:
        while True:
            for ended, _ in self._poll.poll():
                with self._lock:
                    self._poll.unregister(ended)
                    child = self._children.pop(ended)
                os.close(ended)
                child.wait()


_reaper = Reaper()
os.register_at_fork(after_in_child=_reaper.__init__)  # a forked process has neither the thread nor these children


def reap_in_background(child: subprocess.Popen) -> None:
    """Wait for a child that outlives its caller."""
    _reaper.add(child)

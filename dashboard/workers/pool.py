"""Worker processes for web. One that exceeds its time is killed; the thread that waits for it holds no lock.

They start with the first request, end after a while without requests, and share no memory with web. Their side of the
pipes is dashboard.workers.loop.
"""

import atexit
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

from dashboard import json_text
from dashboard.workers.loop import framed
from dashboard.workers.turns import Turns, for_whom

ROOT = Path(__file__).resolve().parents[2]
QUEUE_SECONDS = 20.0  # longest wait for a free worker
MAX_ANSWER = 16 * 1024**2  # bytes


class Late(Exception):
    """No answer in time; the message says why, and completes "because …"."""


class Busy(Late):
    """No worker was free in time."""


class Ended(Exception):
    """The worker process has ended."""


class Worker:
    """One process of `python -m ARGUMENTS`, which answers one request at a time."""

    def __init__(self, *arguments: str):
        self.process = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=ROOT,
            env={name: os.environ[name] for name in ("PATH", "LANG", "PYTHONPATH") if name in os.environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # its own group, so that `end` kills its children too
        )

    @property
    def lives(self) -> bool:
        return self.process.poll() is None

    def ask(self, request: dict, seconds: float, pieces: Callable[[], Iterable[bytes]] | None = None) -> dict:
        """Return the answer. Raise Late if it does not come within `seconds`, Ended if the process is gone.

        The bytes of `pieces()` follow the request, for a worker that reads them with `pieces_from`.
        """
        until = time.monotonic() + seconds
        try:
            self._write(json_text.dumps(request).encode() + b"\n", until)
            for frame in framed(pieces()) if pieces else ():
                if time.monotonic() > until:  # a source without an end
                    raise Late("it took too long")
                self._write(frame, until)
            return json_text.loads(self._read(until))
        except OSError as error:
            raise Ended from error

    def _write(self, line: bytes, until: float):
        pipe, left = self.process.stdin.fileno(), memoryview(line)
        os.set_blocking(pipe, False)
        while left:
            self._wait(pipe, select.POLLOUT, until)
            with suppress(BlockingIOError):
                left = left[os.write(pipe, left) :]

    def _read(self, until: float) -> bytes:
        pipe, chunks, size = self.process.stdout.fileno(), [], 0
        while not (chunks and chunks[-1].endswith(b"\n")):
            self._wait(pipe, select.POLLIN, until)
            chunk = os.read(pipe, 1 << 20)
            size += len(chunk)
            if not chunk:
                raise Ended
            if size > MAX_ANSWER:
                raise Late("the answer was too long")
            chunks.append(chunk)
        return b"".join(chunks)

    @staticmethod
    def _wait(pipe: int, event: int, until: float):
        ready = select.poll()
        ready.register(pipe, event)
        if not ready.poll(max(0, until - time.monotonic()) * 1000):
            raise Late("it took too long")

    def end(self):
        """Kill the worker's process group and reap the process."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with suppress(OSError):
            self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


class Workers:
    """A pool of at most `most` processes started by `make()`; a caller waits in line if none is free.

    `for_people` of them answer no agent.
    """

    def __init__(self, make, most: int, queue_seconds: float = QUEUE_SECONDS, for_people: int = 0):
        self.make, self.queue_seconds = make, queue_seconds
        self.turns = Turns(most, for_people)
        self.lock = threading.Lock()
        self.idle = []
        atexit.register(self.end)

    def ask(self, request: dict, seconds: float, **more) -> dict:
        """Return the answer of a free worker. Raise Late if none is free, or none answers in time."""
        with self._turn():
            for _ in range(2):  # an idle worker may end just as it gets the request
                worker = self._take()
                try:
                    answer = worker.ask(request, seconds, **more)
                except Ended:
                    worker.end()
                except BaseException:
                    worker.end()
                    raise
                else:
                    with self.lock:
                        self.idle.append(worker)
                    return answer
        raise Late("the process that worked on it stopped")

    @contextmanager
    def _turn(self):
        """Take one of `most` turns. Raise Busy after queue_seconds."""
        who = for_whom.get()
        mine = self.turns.ask(who)
        try:
            mine.result(self.queue_seconds)
        except TimeoutError:
            self.turns.withdraw(who, mine)
            raise Busy("too many others were waiting") from None
        try:
            yield
        finally:
            self.turns.release(who)

    def _take(self) -> Worker:
        while True:
            with self.lock:
                worker = self.idle.pop() if self.idle else None
            if worker is None:
                return self.make()
            if worker.lives:
                return worker
            worker.end()

    def end(self):
        """End the idle workers; a busy one ends with this process, since its stdin is closed then."""
        with self.lock:
            idle, self.idle = self.idle, []
        for worker in idle:
            worker.end()

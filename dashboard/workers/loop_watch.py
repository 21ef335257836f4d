"""How late the event loop of web and runner is: measured, told in a file, and logged with the stack that holds it.

A pattern, a parser or a sort that takes long holds everything that the loop serves; nothing else names the line.
Timers of the kernel watch each step, so that a process in which nothing happens is not woken.
"""

import asyncio
import faulthandler
import json
import logging
import signal
import time
import traceback
from collections import deque
from pathlib import Path

from django.conf import settings

from dashboard.files.atomic_write import replace_file

logger = logging.getLogger("handrail.loop")
LOOPS = ("web", "runner")
LATE_S = 1.0  # a step that holds the loop longer than this is counted and logged with its stack
# `re` and other C code keep the interpreter lock, so that no line of Python could log. At this signal the interpreter
# itself prints all threads' stacks to stderr: in a step that takes HELD_S of a processor, and when the supervisor is
# about to kill a part that does not answer.
STACKS = signal.SIGVTALRM
HELD_S = 10.0
STDERR = 2
WINDOW_S = 60.0  # what is shown is the worst of this time
TOLD_EVERY_S = 5.0  # while the loop makes steps; the supervisor and the runner's own rounds see to some
STALE_S = 30.0  # a file older than this is of a process that has ended, or is told anew by its successor


class LoopWatch:
    """Measures the steps of one loop: of the main thread, between two waits of its selector."""

    def __init__(self, name: str, *, late_s: float = LATE_S):
        self.name, self.late_s = name, late_s
        self.steps = 0  # longer than late_s, since the start
        self._worst = deque()  # (when, seconds late) of the last minute, the later ones smaller than those before
        self._began = None  # when the current step began; None while the loop waits
        self._told_at = float("-inf")

    def start(self, loop: asyncio.AbstractEventLoop):
        """Begin to watch the loop that the calling thread runs, or is about to run."""
        self._file = file_of(self.name)
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._selector = loop._selector
        self._select = self._selector.select
        self._selector.select = self._wait
        self._handler_before = signal.signal(signal.SIGALRM, self._alarm)
        faulthandler.register(STACKS, file=STDERR)
        self._timer_before = signal.setitimer(signal.ITIMER_REAL, 0)

    def stop(self):
        self._selector.select = self._select
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        faulthandler.unregister(STACKS)
        signal.signal(signal.SIGALRM, self._handler_before)
        signal.setitimer(signal.ITIMER_REAL, *self._timer_before)
        self._file.unlink(missing_ok=True)

    def report(self) -> dict:
        """Return the worst lateness of the last minute, with that of the current step, and the number of long steps."""
        late = max(self._late(), self._worst[0][1] if self._worst else 0.0)
        return {"at": time.time(), "worst_s": round(late, 4), "steps": self.steps}

    def _wait(self, timeout: float | None = None) -> list:
        """Wait as the selector does; what runs until the next call is a step."""
        began = time.monotonic()
        waits = timeout is None or timeout > 0  # else more is ready: the timers go on, see `_alarm`
        was_late = self._end_step(began, waits)
        found = ()
        try:
            found = self._select(timeout)
            return found
        finally:
            self._began = time.monotonic()
            if waits and not found and timeout is not None:  # late if a thread keeps the interpreter lock
                self._note(self._began, self._began - began - timeout)
            if waits or was_late:  # the timer of a late step has gone off
                self._arm(self.late_s)

    def _end_step(self, now: float, waits: bool) -> bool:
        """Note the step that ends now, if one does; return whether it was late."""
        late = self._late() > self.late_s
        if waits:  # other threads may use processors while the loop waits
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        if self._began is not None:
            self._note(now, now - self._began)
            self._began = None if waits else now
        if now - self._told_at >= TOLD_EVERY_S:
            self._tell()
        return late

    def _arm(self, seconds: float):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        signal.setitimer(signal.ITIMER_VIRTUAL, HELD_S)

    def _note(self, now: float, late: float):
        if late > self.late_s:
            self.steps += 1
            logger.warning("the event loop of %s was held for %.1f s", self.name, late)
        while self._worst and self._worst[-1][1] <= late:
            self._worst.pop()
        self._worst.append((now, late))
        while self._worst[0][0] < now - WINDOW_S:
            self._worst.popleft()

    def _late(self) -> float:
        return time.monotonic() - self._began if self._began is not None else 0.0

    def _alarm(self, number: int, frame):
        """Log what the current step does, once it has held the loop for too long; it may have begun after the timer."""
        if self._began is None:
            return
        if (late := self._late()) < self.late_s:
            self._arm(self.late_s - late)
            return
        stack = "".join(traceback.format_stack(frame))
        words = "a step holds the event loop of %s for more than %g s:\n%s"
        logger.warning(words, self.name, self.late_s, stack.rstrip())
        self._tell()

    def _tell(self):
        self._told_at = time.monotonic()
        try:
            replace_file(self._file, json.dumps(self.report()).encode(), durable=False)
        except OSError as error:  # a full disk; what is shown goes stale and is left out
            logger.warning("the lateness of %s could not be told: %s", self.name, error.strerror)


def file_of(name: str) -> Path:
    return settings.HANDRAIL_RUNTIME / "heartbeat" / f"loop-{name}.json"


def of_this_host() -> dict[str, dict]:
    """Return {process: what it last told}, without those that told nothing lately."""
    found = {}
    for name in LOOPS:
        try:
            told = json.loads(file_of(name).read_bytes())
            if time.time() - told["at"] < STALE_S:
                found[name] = told
        except (OSError, ValueError, KeyError, TypeError):  # not started, or from another version
            continue
    return found

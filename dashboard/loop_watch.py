"""How late the event loop of web and runner is: measured, told in a file, and logged with the stack that holds it.

A pattern, a parser or a sort that takes long holds everything that the loop serves; nothing else names the line.
"""

import asyncio
import faulthandler
import json
import logging
import selectors
import sys
import threading
import time
import traceback
from collections import deque
from pathlib import Path

from django.conf import settings

from dashboard.files.atomic_write import replace_file

logger = logging.getLogger("handrail.loop")
LOOPS = ("web", "runner")
INTERVAL_S = 0.25  # between two measurements
LATE_S = 1.0  # a step that holds the loop longer than this is counted and logged with its stack
# `re` and other C code keep the interpreter lock, so that no thread of Python could log: after this time the
# interpreter itself prints the stacks of all threads to stderr. Sooner than the supervisor kills who does not answer.
HELD_S = 10.0
STDERR = 2
WINDOW_S = 60.0  # what is shown is the worst of this time
TOLD_EVERY_S = 2.0
STALE_S = 15.0  # a file older than this is of a process that has ended, or is told anew by its successor


class LoopWatch:
    """Measures one loop by a callback on it, and looks at the loop's thread from a thread of its own."""

    def __init__(self, name: str, *, late_s: float = LATE_S):
        self.name, self.late_s = name, late_s
        self.steps = 0  # longer than late_s, since the start
        self._worst = deque()  # (when, seconds late) of the last minute, the later ones smaller than those before
        self._due = None  # when the callback should run next; None before the first time
        self._logged = self._starved = None  # the due times whose step was logged, or was none
        self._ended = threading.Event()

    def start(self, loop: asyncio.AbstractEventLoop):
        """Begin to watch the loop that the calling thread runs, or is about to run."""
        self._loop, self._watched = loop, threading.get_ident()
        self._file = file_of(self.name)
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        loop.call_soon(self._begin)
        threading.Thread(target=self._watch, name=f"watch of {self.name}", daemon=True).start()

    def stop(self):
        self._ended.set()
        faulthandler.cancel_dump_traceback_later()
        self._file.unlink(missing_ok=True)

    def told(self) -> dict:
        """Return the worst lateness of the last minute, with that of the current step, and the number of long steps."""
        late = max(self._late(), self._worst[0][1] if self._worst else 0.0)
        return {"at": time.time(), "worst_s": round(late, 4), "steps": self.steps}

    def _begin(self):
        if not self._ended.is_set():
            self._due = time.monotonic() + INTERVAL_S
            self._loop.call_later(INTERVAL_S, self._beat)
            faulthandler.dump_traceback_later(HELD_S, file=STDERR)

    def _beat(self):
        late, now = self._late(), time.monotonic()
        if late > self.late_s and self._due != self._starved:
            self.steps += 1
            logger.warning("the event loop of %s was held for %.1f s", self.name, late)
        while self._worst and (self._worst[-1][1] <= late):
            self._worst.pop()
        self._worst.append((now, late))
        while self._worst[0][0] < now - WINDOW_S:
            self._worst.popleft()
        self._begin()

    def _late(self) -> float:
        return max(0.0, time.monotonic() - self._due) if self._due else 0.0

    def _watch(self):
        told_at = 0.0
        while not self._ended.wait(self.late_s / 4):
            due = self._due
            if self._late() > self.late_s and self._logged != due:
                self._logged = due
                self._log_stack()
            if time.monotonic() - told_at >= TOLD_EVERY_S:
                told_at = time.monotonic()
                self._tell()

    def _log_stack(self):
        frame = sys._current_frames().get(self._watched)
        if frame and frame.f_code.co_filename == selectors.__file__:
            self._starved = self._due  # it waits for nothing but the processor, which this machine gave to others
            return
        stack = "".join(traceback.format_stack(frame)) if frame else "its thread has ended\n"
        words = "a step holds the event loop of %s for more than %g s:\n%s"
        logger.warning(words, self.name, self.late_s, stack.rstrip())

    def _tell(self):
        try:
            replace_file(self._file, json.dumps(self.told()).encode(), durable=False)
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

"""Input of a pty with several viewers: each typed byte once and in order, replies and size from one viewer only.

A viewer that may type has a Seat, which lasts as long as its connection to the shim. The *speaker* is the seat that
typed last, or the first one: its emulator answers terminal queries (DA, DSR, colours) and its window sets the size.
Output printed while there was no speaker may still be answered by the next one, for REPLY_WINDOW_S. A reply to
anything older would be input to a program that no longer expects it.
"""

import os
import time
from collections import OrderedDict
from collections.abc import Callable

MAX_BUFFERED_BYTES = 1 << 20  # typed bytes buffered for a program that does not read
MAX_TYPISTS = 256  # most recent typists: a page that reconnects asks how much of its input has arrived
REPLY_WINDOW_S = 10.0
UNKNOWN_BEFORE = 1 << 40  # bytes that a typist is said to have typed to the shim of a host that is lost


class Seat:
    """One connection; `typist` is the name the viewer chose, "" if it has not joined."""

    def __init__(self):
        self.typist = ""
        self.left: Callable[[], bool] = bool  # whether the viewer has disconnected


class Keyboard:
    """The input buffer. `watch(waiting)` is called to start or stop calling `flush` when the pty is writable."""

    def __init__(self, watch: Callable[[bool], None]):
        self.waiting = bytearray()
        self.speaker: Seat | None = None
        self._watch = watch
        self._arrived: OrderedDict[str, int] = OrderedDict()  # typist: bytes so far
        self._before = 0  # bytes that a typist counts as having typed before its first
        self._silent_from = 0  # the output offset, and below the time, at which the last speaker left
        self._silent_since = time.monotonic()

    def go_on(self, total: int) -> None:
        """Go on after the shim of a host that is lost, with output up to `total`.

        How much of what was typed there had arrived is unknown, so that none of it is taken again, nor is a reply to
        what was printed there.
        """
        self._before, self._silent_from = UNKNOWN_BEFORE, total

    def join(self, seat: Seat, typist: str, total: int) -> dict:
        """Join as `typist`. Return {typed: its bytes that arrived, live_from: first output offset to reply to}."""
        if not isinstance(typist, str) or not 1 <= len(typist) <= 64:
            raise ValueError("a typist has a name of 1 to 64 characters")
        seat.typist = typist
        fresh = time.monotonic() - self._silent_since < REPLY_WINDOW_S
        live_from = self._silent_from if self.speaker is None and fresh else total
        self.speaker = self.speaker or seat
        return {"typed": self._arrived.get(typist, self._before), "live_from": live_from}

    def leave(self, seat: Seat, total: int) -> None:
        if self.speaker is seat:
            self.speaker = None
            self._silent_from, self._silent_since = total, time.monotonic()

    def type(self, seat: Seat, data: bytes, at: int | None) -> int:
        """Type `data`, which begins at byte `at` of this typist's input, without bytes that arrived before.

        Return how many bytes of this typist have arrived. Raise ValueError for a missing part or a full buffer.
        """
        arrived = self._arrived.get(seat.typist, self._before)
        if seat.typist and at is not None:
            if at > arrived:
                raise ValueError(f"bytes {arrived} to {at} are missing")
            data = data[arrived - at :]
        if len(self.waiting) + len(data) > MAX_BUFFERED_BYTES:
            raise ValueError("it does not read its input")
        self.waiting += data
        if seat.typist:
            self.speaker = seat
            self._arrived[seat.typist] = arrived + len(data)
            self._arrived.move_to_end(seat.typist)
            while len(self._arrived) > MAX_TYPISTS:
                self._arrived.popitem(last=False)
        self._watch(bool(self.waiting))
        return arrived + len(data)

    def reply(self, seat: Seat, data: bytes) -> bool:
        """Buffer an emulator's automatic reply. Return False if this seat may not reply or the buffer is full."""
        if not seat.typist or not self.may_speak(seat) or len(self.waiting) + len(data) > MAX_BUFFERED_BYTES:
            return False
        self.speaker = seat
        self.waiting += data
        self._watch(bool(self.waiting))
        return True

    def may_speak(self, seat: Seat) -> bool:
        """Return True if the seat is the speaker, or there is none."""
        return self.speaker is None or self.speaker is seat

    def flush(self, fd: int) -> None:
        """Write as much as the pty accepts now."""
        try:
            written = os.write(fd, self.waiting)
        except BlockingIOError:
            written = 0
        except OSError:
            written = len(self.waiting)  # the program has closed the pty
        del self.waiting[:written]
        self._watch(bool(self.waiting))

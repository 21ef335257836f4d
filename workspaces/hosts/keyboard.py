"""Who types into a pty: every byte once and in order, emulators' replies by one viewer only, its size by who types.

A viewer that may type takes a Seat, which lasts as long as its connection to the host. The *speaker* is the seat that
typed last, or the first one: its emulator answers what programs ask terminals (DA, DSR, colours), its window gives the
size. What was printed while nobody had the word may still be answered by the next speaker for a while; anything older
is history, and a reply to it would be typed into a program that did not ask.
"""

import os
import time
from collections import OrderedDict
from collections.abc import Callable

MAX_WAITING = 1 << 20  # typed bytes that wait for a program which does not read
REMEMBERED = 256  # typists, the latest: a page that reconnects asks how much of what it typed has arrived
STILL_ANSWERED_S = 10.0


class Seat:
    """One connection; `typist` is the viewer's own name for itself, or "" for who types without taking part."""

    def __init__(self):
        self.typist = ""
        self.left: Callable[[], bool] = bool  # whether who sat here is gone


class Keyboard:
    """What was typed and waits; `watch` is told whether to call `flush` once the pty takes something."""

    def __init__(self, watch: Callable[[bool], None]):
        self.waiting = bytearray()
        self.speaker: Seat | None = None
        self._watch = watch
        self._arrived: OrderedDict[str, int] = OrderedDict()  # typist: bytes so far
        self._silent_from = 0  # the offset, and since when, nobody has had the word
        self._silent_since = time.monotonic()

    def join(self, seat: Seat, typist: str, total: int) -> dict:
        """Take part: {typed: bytes of this typist that arrived, live_from: the first offset it may reply to}."""
        if not isinstance(typist, str) or not 1 <= len(typist) <= 64:
            raise ValueError("a typist has a name of 1 to 64 characters")
        seat.typist = typist
        fresh = time.monotonic() - self._silent_since < STILL_ANSWERED_S
        live_from = self._silent_from if self.speaker is None and fresh else total
        self.speaker = self.speaker or seat
        return {"typed": self._arrived.get(typist, 0), "live_from": live_from}

    def leave(self, seat: Seat, total: int) -> None:
        if self.speaker is seat:
            self.speaker = None
            self._silent_from, self._silent_since = total, time.monotonic()

    def type(self, seat: Seat, data: bytes, at: int | None) -> int:
        """Type `data`, which begins at byte `at` of all that this typist typed; what came before is not typed again."""
        arrived = self._arrived.get(seat.typist, 0)
        if seat.typist and at is not None:
            if at > arrived:
                raise ValueError(f"bytes {arrived} to {at} are missing")
            data = data[arrived - at :]
        if len(self.waiting) + len(data) > MAX_WAITING:
            raise ValueError("it does not read its input")
        self.waiting += data
        if seat.typist:
            self.speaker = seat
            self._arrived[seat.typist] = arrived + len(data)
            self._arrived.move_to_end(seat.typist)
            while len(self._arrived) > REMEMBERED:
                self._arrived.popitem(last=False)
        self._watch(bool(self.waiting))
        return arrived + len(data)

    def reply(self, seat: Seat, data: bytes) -> bool:
        """What an emulator says by itself; False when another viewer has the word."""
        if not seat.typist or not self.has_word(seat) or len(self.waiting) + len(data) > MAX_WAITING:
            return False
        self.speaker = seat
        self.waiting += data
        self._watch(bool(self.waiting))
        return True

    def has_word(self, seat: Seat) -> bool:
        return self.speaker is None or self.speaker is seat

    def flush(self, fd: int) -> None:
        """Hand over as much as the pty takes now."""
        try:
            written = os.write(fd, self.waiting)
        except BlockingIOError:
            written = 0
        except OSError:
            written = len(self.waiting)  # nobody is there to read it any more
        del self.waiting[:written]
        self._watch(bool(self.waiting))

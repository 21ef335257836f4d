"""Who has a terminal open, and who of them types.

A viewer chooses a key for itself and a label, which the shim keeps and passes on to the other viewers without reading
it. A viewer is listed as long as its connection to the shim.
"""

import asyncio
import json
import time
from contextlib import suppress

from .input import Seat

TYPING_S = 4.0  # how long a viewer counts as typing after its last input
TYPING_POLL_S = 0.5  # between two checks whether somebody still types
LEFT_POLL_S = 2.0  # between two checks whether a waiting viewer has disconnected
MAX_LABEL_BYTES = 2048


class People:
    """The viewers that said who they are: {"viewer": key, "label": as given, "typing": bool} of each, in order."""

    def __init__(self):
        self._listed: dict[Seat, tuple[str, dict]] = {}
        self._typed_at: dict[str, float] = {}
        self._changed = asyncio.Event()

    def enter(self, seat: Seat, viewer: str, label: dict) -> None:
        if not isinstance(viewer, str) or not 1 <= len(viewer) <= 64 or not isinstance(label, dict):
            raise ValueError("a viewer has a key of 1 to 64 characters and a label")
        if len(json.dumps(label)) > MAX_LABEL_BYTES:
            raise ValueError(f"a label has at most {MAX_LABEL_BYTES} bytes")
        if self._listed.get(seat) != (viewer, label):
            self._listed[seat] = (viewer, label)
            self._wake()

    def leave(self, seat: Seat) -> None:
        if found := self._listed.pop(seat, None):
            self._typed_at.pop(found[0], None)
            self._wake()

    def typed(self, viewer: str) -> None:
        """Note that this viewer types now; without effect for one that is not listed."""
        if all(viewer != key for key, _ in self._listed.values()):
            return
        began = not self._types(viewer)
        self._typed_at[viewer] = time.monotonic()
        if began:
            self._wake()

    def listed(self) -> list[dict]:
        return [
            {"viewer": key, "label": label, "typing": self._types(key)} for key, label in list(self._listed.values())
        ]

    async def differ_from(self, seen: list | None, seat: Seat) -> list[dict]:
        """Wait until the list differs from `seen`, and return it."""
        while (found := self.listed()) == seen:
            typing = any(entry["typing"] for entry in found)
            with suppress(TimeoutError):
                async with asyncio.timeout(TYPING_POLL_S if typing else LEFT_POLL_S):
                    await self._changed.wait()
            if seat.left():
                raise ConnectionResetError
        return found

    def _types(self, viewer: str) -> bool:
        return time.monotonic() - self._typed_at.get(viewer, float("-inf")) < TYPING_S

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

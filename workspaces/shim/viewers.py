"""The shim's socket: lines of JSON, with one answer for each request, in order.

A viewer reads the recording itself and connects only to be woken, so a slow viewer costs nothing.

  {op: wait, offset, sizes?}  answered when there is output beyond `offset`, when the terminal has had more than `sizes`
                              sizes, or at the end
  {op: reading, offset}       the viewer is still reading: the program is paused before output it is about to read is
                              dropped, as long as this is repeated every READER_TIMEOUT_S
  {op: join, typist}          {typed, live_from}; input.py explains typists and the speaker
  {op: input, data, at?, viewer?}  {typed}; `data` in base64, to a terminal; `viewer` is the key of who types
  {op: look, viewer, label, seen}  {people}, once that differs from `seen`; lists the viewer until it disconnects
  {op: reply, data}           {taken}
  {op: resize, cols, rows}    of viewers that have joined, only the speaker resizes
  {op: signal, signal}        to the program and all it started
  {op: cancel}                SIGTERM, after 5 s SIGKILL
  {op: status}                only the fields of every answer: {total, ended, program_pid, suspended}

The runner also sends the operations of suspend.py, for a Run whose driver keeps the memory of its programs.
"""

import asyncio
import base64
import json
import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from workspaces.drivers.base import DriverError
from workspaces.drivers.init_client import short_address

from .input import Keyboard, Seat
from .people import People
from .suspend import OPS as SUSPEND_OPS

MAX_LINE_BYTES = 4 << 20
# A viewer counts as reading while it reports another client.REPORT_BYTES within this time, that is 128 KiB/s. The
# program waits for such a viewer before bytes that it is about to read are dropped, but not for a slower one.
READER_TIMEOUT_S = 4.0
DISCONNECT_POLL_S = 2.0  # between two checks whether a waiting viewer has disconnected


class Viewers:
    """The connections to one Shim."""

    def __init__(self, shim):
        self.shim = shim
        self.keyboard = Keyboard(shim.watch_input)
        self.people = People()
        self._reading: dict[Seat, tuple[int, float]] = {}  # offset of each viewer, and when it was reported
        self._changed = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def open(self, folder: Path) -> None:
        self._server = await asyncio.start_unix_server(self._serve, sock=_listener(folder), limit=MAX_LINE_BYTES)

    def close(self, folder: Path) -> None:
        self._server.close()
        (folder / "socket").unlink(missing_ok=True)

    def wake(self) -> None:
        """Answer the waiting viewers: there is more output, another size, or the end."""
        self._changed.set()
        self._changed = asyncio.Event()

    def has_reader_before(self, offset: int) -> bool:
        """Return True if a viewer is about to read output below `offset`."""
        since = time.monotonic() - READER_TIMEOUT_S
        return any(at < offset and reported > since for at, reported in self._reading.values())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seat = Seat()
        seat.left = reader.at_eof
        try:
            while line := await reader.readline():
                try:
                    answer = await self._answer(json.loads(line), seat)
                except (ValueError, KeyError, TypeError, OSError, DriverError) as error:
                    answer = {"error": str(error)}
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError):
            pass  # the viewer disconnected, or sent a line longer than MAX_LINE_BYTES
        finally:
            self._reading.pop(seat, None)
            self.people.leave(seat)
            self.keyboard.leave(seat, self.shim.recorder.total)
            writer.close()

    async def _answer(self, request: dict, seat: Seat) -> dict:
        shim, op = self.shim, request["op"]
        if op == "wait":
            await self._wait_for_output(int(request["offset"]), request.get("sizes"), seat)
            result = {}
        elif op == "look":
            self.people.enter(seat, request["viewer"], request["label"])
            result = {"people": await self.people.differ_from(request.get("seen"), seat)}
        else:
            result = self._from_typist(op, request, seat)
        if result is None:
            result = {}
            if op == "reading":
                self._reading[seat] = (int(request["offset"]), time.monotonic())
            elif op == "signal":
                shim.request_init("signal", signal=int(request["signal"]))
            elif op == "cancel":
                shim.end("cancelled")
            elif op in SUSPEND_OPS:
                shim.suspension.answer(request)
            elif op != "status":
                raise ValueError(f"unknown operation {op!r}")
        return result | {
            "total": shim.recorder.total,
            "ended": shim.finished.is_set(),
            "program_pid": shim.program.pid if shim.program else None,
            "suspended": shim.suspension.suspended,
        }

    def _from_typist(self, op: str, request: dict, seat: Seat) -> dict | None:
        """Carry out an operation of the keyboard or the window. Return its result, None for another operation."""
        if op == "join":
            return self.keyboard.join(seat, request["typist"], self.shim.recorder.total)
        if op == "input":
            typed = self.keyboard.type(seat, self._typed(request), request.get("at"))
            self.people.typed(request.get("viewer", ""))
            return {"typed": typed}
        if op == "reply":
            return {"taken": self.keyboard.reply(seat, self._typed(request))}
        if op == "resize":
            if self.keyboard.may_speak(seat) or not seat.typist:
                self.shim.resize(int(request["cols"]), int(request["rows"]))
            return {}
        return None

    def _typed(self, request: dict) -> bytes:
        if not self.shim.spec.pty or self.shim.program is None:
            raise ValueError("this program takes no input")
        return base64.b64decode(request["data"], validate=True)

    async def _wait_for_output(self, offset: int, sizes: int | None, seat: Seat) -> None:
        shim = self.shim
        self._reading.pop(seat, None)  # it has read everything so far
        while shim.recorder.total <= offset and not shim.finished.is_set():
            if sizes is not None and shim.recorder.sizes > sizes:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(DISCONNECT_POLL_S):
                    await self._changed.wait()
            if seat.left():
                raise ConnectionResetError  # else the connection would stay open as long as the program is silent
        # There is new output now, and a fast program could drop it before the viewer begins to read.
        self._reading[seat] = (offset, time.monotonic())


def _listener(folder: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    with short_address(folder / "socket") as address:
        listener.bind(address)
    os.chmod(folder / "socket", 0o600)
    return listener

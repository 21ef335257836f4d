"""Start, watch and end commands and terminals. Works the same while the host lives and long after it is gone.

A host lives as long as its program, so it may be older than this module: what only a newer protocol has is left out
with an older host (`status(folder).protocol`), and everything else goes on.
"""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

from ..drivers.base import DriverError
from ..drivers.initclient import InitClient, InitGone, short_address
from .folder import Exit, Handed, HostSpec, HostStatus, claim, now, read_spec, read_status, write_exit, write_spec
from .recording import Gap, Output, Reader, Resized, Sizes, segments
from .spawn import spawn

START_S = 20.0
PIECE = 1 << 16
NOTHING_HANDED = Handed()
REPORT_BYTES = 1 << 19  # how much a viewer reads between two words to the host of where it is


async def start(folder: Path, spec: HostSpec, handed: Handed = NOTHING_HANDED) -> HostStatus:
    """Run `spec` in `folder` (made here, 0700), at most once whatever happens; return when it runs or has ended.

    What is `handed` beside it goes to the host process through a pipe and is written nowhere.
    """
    return await asyncio.to_thread(_start, Path(folder), spec, handed)


async def attach(
    folder: Path, offset: int = 0, *, follow: bool = True, sizes: bool = False
) -> AsyncIterator[Output | Gap | Resized]:
    """The output from `offset` on; with `follow` until the program has ended, with `sizes` also those of a terminal.

    Nothing is read ahead: what a viewer does not take stays in the file, and a viewer that falls behind the cap gets
    a Gap.
    """
    reader = Reader(folder, offset)
    sized = Sizes(folder) if sizes else None
    watch = _Watch(Path(folder))
    more = follow
    try:
        while True:
            while (found := _next(reader, sized)) is not None:
                yield found
                if follow:
                    await watch.reading(reader.offset)
            if not more:
                break
            # Once more after the end: it was written before that.
            more = await watch.news(reader.offset, sized.count if sized else None)
        missing = read_status(folder).exit
        if missing is not None and missing.output_bytes > reader.offset:
            yield Gap(reader.offset, missing.output_bytes)
    finally:
        reader.close()
        watch.close()
        if sized:
            sized.close()


def _next(reader: Reader, sized: Sizes | None) -> Output | Gap | Resized | None:
    """What follows; bytes of one size at a time."""
    if sized is None:
        return reader.next()
    return sized.due(reader.offset) or reader.next(min(PIECE, sized.room(reader.offset)))


def status(folder: Path) -> HostStatus:
    """From the files alone."""
    return read_status(folder)


async def wait(folder: Path, timeout_s: float | None = None) -> HostStatus:
    """Return when the program has ended, or as it is after `timeout_s`."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while (found := read_status(folder)).state == "running":
        left = 1.0 if deadline is None else deadline - time.monotonic()
        if left <= 0:
            break
        try:
            await asyncio.wait_for(_ask(folder, {"op": "wait", "offset": 1 << 62}), min(left, 30.0))
        except (DriverError, TimeoutError):
            pass
        await asyncio.sleep(0.005)  # between the word of the end and the end of the process
    return found


async def cancel(folder: Path) -> None:
    """Ask the program and all it started to end; SIGKILL after 5 s. No error if it has ended."""
    await _control(folder, {"op": "cancel"})


async def send_signal(folder: Path, number: int) -> None:
    await _control(folder, {"op": "signal", "signal": number})


async def send_input(folder: Path, data: bytes) -> None:
    """Type into a terminal."""
    await _control(folder, {"op": "input", "data": base64.b64encode(data).decode()})


async def resize(folder: Path, cols: int, rows: int) -> None:
    await _control(folder, {"op": "resize", "cols": cols, "rows": rows})


async def tell(folder: Path, request: dict) -> dict:
    """What only the runner says; the operations are in host.py and sleep.py."""
    return await _ask(folder, request)


class Typist:
    """A viewer that types, on a connection of its own; the host forgets that it has the word when that ends.

    Every method raises DriverError when the host does not answer or refuses.
    """

    def __init__(self, folder: Path):
        self._folder = Path(folder)
        self._old = (read_status(folder).protocol or 1) < 2
        self._connection = None
        self._one_at_a_time = asyncio.Lock()

    async def join(self, name: str) -> dict:
        """Take part as `name`: {typed: its bytes that arrived, live_from: offset}; an old host knows neither.

        Waits for a host that has just claimed its folder and does not listen yet.
        """
        while not self._old:
            try:
                return await self._ask({"op": "join", "typist": name})
            except DriverError as error:
                if not isinstance(error.__cause__, OSError) or read_status(self._folder).state != "running":
                    raise
            await asyncio.sleep(0.02)
        return {}

    async def type(self, data: bytes, at: int) -> int:
        """Type bytes, of which those before byte `at` arrived; how many have now."""
        answer = await self._ask({"op": "input", "data": base64.b64encode(data).decode(), "at": at})
        return answer.get("typed", at + len(data))

    async def reply(self, data: bytes) -> None:
        """What the emulator says by itself. Counts only from who has the word, which an old host cannot tell."""
        if not self._old:
            await self._ask({"op": "reply", "data": base64.b64encode(data).decode()})

    async def resize(self, cols: int, rows: int) -> None:
        await self._ask({"op": "resize", "cols": cols, "rows": rows})

    def close(self) -> None:
        if self._connection is not None:
            self._connection[1].close()
            self._connection = None

    async def _ask(self, request: dict) -> dict:
        async with self._one_at_a_time:
            try:
                if self._connection is None:
                    self._connection = await _connect(self._folder)
                answer = await _exchange(self._connection, request)
            except OSError as error:
                self.close()
                raise DriverError("The program's host process does not answer.") from error
        if "error" in answer:
            raise DriverError(answer["error"])
        return answer


async def settle(folder: Path) -> HostStatus:
    """For recovery: make the state final. A program that was not started never will be; a lost one is ended.

    Afterwards the state is `running` (a live host watches it), `exited` or `never_started`.
    """
    return await asyncio.to_thread(_settle, Path(folder))


def _start(folder: Path, spec: HostSpec, handed: Handed) -> HostStatus:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not (folder / "claim").exists():
        write_spec(folder, spec)
        host = spawn(folder, handed.to_json())
    else:
        host = None
    deadline, pause = time.monotonic() + START_S, 0.002
    while time.monotonic() < deadline:
        gone = host is None or host.poll() is not None
        found = read_status(folder)
        if found.program_pid is not None or found.exit is not None or found.state == "lost":
            return found
        if gone and found.state == "never_started":
            if (folder / "claim").exists():
                return found
            raise DriverError(f"The program's host process did not start: {_last_words(folder)}")
        time.sleep(pause)
        pause = min(pause * 1.1, 0.02)  # on a busy machine each look takes from what it waits for
    raise DriverError("The program's host process did not start in time.")


def _last_words(folder: Path) -> str:
    try:
        return (folder / "log").read_text(errors="replace").strip()[-300:]
    except FileNotFoundError:
        return "it said nothing"


def _settle(folder: Path) -> HostStatus:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # whoever wanted to start it may not have come even to this
    if not (folder / "claim").exists() and claim(folder, by="recovery"):
        return read_status(folder)
    found = read_status(folder)
    if found.state != "lost":
        return found
    _end_program(folder, found.program_pid)
    kept = max((start + size for start, size in segments(folder)), default=0)
    write_exit(folder, Exit(reason="lost", ended_at=now(), output_bytes=kept))
    return read_status(folder)


def _end_program(folder: Path, pid: int | None) -> None:
    """Return when no program of a host that died is left; its init ends it, this only makes sure."""
    deadline = time.monotonic() + 15.0
    while pid is not None and time.monotonic() < deadline:
        try:
            with InitClient(read_spec(folder).address.socket) as init:
                found = init.request("processes")["processes"]
                if not any(entry["session"] == pid for entry in found):
                    return
                init.request("end", pid=pid, grace_s=0.0)
        except InitGone:
            return  # the Run is gone, and everything with it
        time.sleep(0.05)
    if pid is not None:
        raise DriverError("A program whose host process died cannot be ended.")


class _Watch:
    """One viewer's connection to a host, made when needed."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.connection = None
        self.told = -REPORT_BYTES  # so that the first word comes at once, wherever it begins

    async def news(self, offset: int, sizes: int | None = None) -> bool:
        """Wait until there is output behind `offset`, or another size; False when there never will be."""
        request = {"op": "wait", "offset": offset} | ({} if sizes is None else {"sizes": sizes})
        try:
            answer = await self.ask(request)
            self.told = offset
            return not answer["ended"]
        except OSError:
            self.close()
            if read_status(self.folder).state != "running":
                return False
            await asyncio.sleep(0.02)
            return True

    async def reading(self, offset: int) -> None:
        """Now and then say how far this viewer is, so that the host waits before it drops what comes next."""
        if offset - self.told < REPORT_BYTES:
            return
        self.told = offset
        try:
            await self.ask({"op": "reading", "offset": offset})
        except OSError:
            self.close()  # it has ended; what it left is read to the end

    async def ask(self, request: dict) -> dict:
        if self.connection is None:
            self.connection = await _connect(self.folder)
        return await _exchange(self.connection, request)

    def close(self) -> None:
        if self.connection is not None:
            self.connection[1].close()
            self.connection = None


async def _control(folder: Path, request: dict) -> None:
    try:
        await _ask(folder, request)
    except DriverError:
        if read_status(folder).state == "running":
            raise


async def _ask(folder: Path, request: dict) -> dict:
    try:
        connection = await _connect(folder)
        try:
            answer = await _exchange(connection, request)
        finally:
            connection[1].close()
    except OSError as error:
        raise DriverError("The program's host process does not answer.") from error
    if "error" in answer:
        raise DriverError(f"The program's host process refused: {answer['error']}")
    return answer


async def _connect(folder: Path):
    with short_address(Path(folder) / "socket") as address:
        return await asyncio.open_unix_connection(address)


async def _exchange(connection, request: dict) -> dict:
    reader, writer = connection
    writer.write(json.dumps(request).encode() + b"\n")
    await writer.drain()
    line = await reader.readline()
    if not line:
        raise ConnectionResetError
    return json.loads(line)

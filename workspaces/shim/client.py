"""Start, watch and end commands and terminals. Works the same while the shim lives and long after it has exited."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

from workspaces.drivers.base import DriverError
from workspaces.drivers.init_client import InitClient, InitGone, short_address

from .pool import NewShim, spawn
from .record import Exit, Handed, ShimSpec, ShimStatus, claim, now, read_spec, read_status, write_exit, write_spec
from .recording import Gap, Output, Reader, Resized, Sizes, segments

START_TIMEOUT_S = 20.0
POLL_S = 0.02  # between two polls of a program's folder when there is no shim to wait for
LOOK_AGAIN_S = 0.2  # before another try to reach a shim that does not answer
PIECE_BYTES = 1 << 16
NO_SECRETS = Handed()
REPORT_BYTES = 1 << 19  # how much a viewer reads between two reports of its offset to the shim


async def start(folder: Path, spec: ShimSpec, handed: Handed = NO_SECRETS) -> ShimStatus:
    """Run `spec` in `folder` (created with mode 0700), at most once; return when it runs or has ended.

    `handed` goes to the shim over a socket and is never on disk. Raise DriverError if the shim does not start.
    """
    return await asyncio.to_thread(_start, Path(folder), spec, handed)


async def attach(
    folder: Path, offset: int = 0, *, follow: bool = True, sizes: bool = False
) -> AsyncIterator[Output | Gap | Resized]:
    """Yield the output from `offset` on; with `follow` until the program ends, with `sizes` also terminal resizes.

    Nothing is read ahead: what a viewer does not consume stays in the file, and a viewer that falls behind the cap gets
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
            # Read once more after the end: all output is written before it.
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
    """Return the next part; output never spans a change of size."""
    if sized is None:
        return reader.next()
    return sized.due(reader.offset) or reader.next(min(PIECE_BYTES, sized.room(reader.offset)))


def status(folder: Path) -> ShimStatus:
    """Return the state according to the files in the folder, without asking the shim."""
    return read_status(folder)


async def wait(folder: Path, timeout_s: float | None = None) -> ShimStatus:
    """Return the state once the program has ended, or after `timeout_s`."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while (found := read_status(folder)).state == "running":
        left = 1.0 if deadline is None else deadline - time.monotonic()
        if left <= 0:
            break
        try:
            async with asyncio.timeout(min(left, 30.0)):
                await _ask(folder, {"op": "wait", "offset": 1 << 62})
        except (DriverError, TimeoutError):
            await asyncio.sleep(POLL_S)  # the shim may have died; its last state is on disk
    return found


async def cancel(folder: Path) -> None:
    """Send SIGTERM to the program and all it started, SIGKILL after 5 s. No error if it has ended."""
    await _control(folder, {"op": "cancel"})


async def send_signal(folder: Path, number: int) -> None:
    await _control(folder, {"op": "signal", "signal": number})


async def send_input(program: "Path | ShimEnd", data: bytes) -> None:
    """Type into a terminal."""
    await _control(program, {"op": "input", "data": base64.b64encode(data).decode()})


async def resize(folder: Path, cols: int, rows: int) -> None:
    await _control(folder, {"op": "resize", "cols": cols, "rows": rows})


async def request(folder: Path, message: dict) -> dict:
    """Send a request of the runner and return the answer; the requests are in viewers.py and suspend.py."""
    return await _ask(folder, message)


class ShimEnd:
    """A program's host process, as viewers reach it: by its folder here, or by way of another host's runner."""

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection to it. Raise OSError."""
        raise NotImplementedError

    async def is_running(self) -> bool:
        raise NotImplementedError


class _Folder(ShimEnd):
    def __init__(self, folder: Path):
        self._folder = folder

    async def connect(self):
        return await _connect(self._folder)

    async def is_running(self) -> bool:
        return read_status(self._folder).state == "running"


def _end_of(program: Path | ShimEnd) -> ShimEnd:
    return program if isinstance(program, ShimEnd) else _Folder(Path(program))


class Typist:
    """A viewer that types, on its own connection; closing it gives up being the speaker (see input.py).

    Every method raises DriverError when the shim does not answer or refuses.
    """

    def __init__(self, program: Path | ShimEnd, viewer: str = ""):
        self._end = _end_of(program)
        self._viewer = viewer  # the key by which `looking` lists it, if it does
        self._connection = None
        self._one_at_a_time = asyncio.Lock()

    async def join(self, name: str) -> dict:
        """Take part as `name`. Return {typed: its bytes that arrived, live_from: offset}.

        Waits for a shim that has just claimed its folder and does not listen yet.
        """
        while True:
            try:
                return await self._ask({"op": "join", "typist": name})
            except DriverError as error:
                if not isinstance(error.__cause__, OSError) or not await self._end.is_running():
                    raise
            await asyncio.sleep(POLL_S)

    async def type(self, data: bytes, at: int) -> int:
        """Type `data`, which begins at byte `at` of all that was typed. Return how many bytes have arrived in all."""
        request = {"op": "input", "data": base64.b64encode(data).decode(), "at": at, "viewer": self._viewer}
        answer = await self._ask(request)
        return answer["typed"]

    async def reply(self, data: bytes) -> None:
        """Send an automatic reply of the emulator. The shim takes it only from the speaker."""
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
                    self._connection = await self._end.connect()
                answer = await _exchange(self._connection, request)
            except OSError as error:
                self.close()
                raise DriverError("The program's host process does not answer.") from error
        if "error" in answer:
            raise DriverError(answer["error"])
        return answer


async def looking(program: Path | ShimEnd, viewer: str, label: dict) -> AsyncIterator[list[dict]]:
    """List this viewer among those who have the terminal open, for as long as the iterator is read.

    Yield the list, this viewer included, each time that it changes, until the program ends (people.py).
    """
    connection, seen, end = None, None, _end_of(program)
    try:
        while await end.is_running():
            try:
                connection = connection or await end.connect()
                answer = await _exchange(connection, {"op": "look", "viewer": viewer, "label": label, "seen": seen})
            except OSError:
                if connection:
                    connection[1].close()
                connection = None
                await asyncio.sleep(LOOK_AGAIN_S)
                continue
            if "error" in answer:  # a shim of a version that does not know this
                return
            seen = answer["people"]
            yield seen
    finally:
        if connection:
            connection[1].close()


async def settle(folder: Path) -> ShimStatus:
    """Make the state final, for recovery: a program that was not started never will be, a lost one is ended.

    Afterwards the state is `running` (a live shim watches it), `exited` or `never_started`.
    """
    return await asyncio.to_thread(_settle, Path(folder))


def _start(folder: Path, spec: ShimSpec, handed: Handed) -> ShimStatus:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (folder / "claim").exists():
        return _until_started(folder, None)
    write_spec(folder, spec)
    with closing(spawn(folder, handed.to_json())) as shim:
        return _until_started(folder, shim)


def _until_started(folder: Path, shim: NewShim | None) -> ShimStatus:
    """Wait until the program runs, has ended or never will, and return the state.

    `shim` is None when another process started the shim. Raise DriverError after START_TIMEOUT_S or if the shim failed.
    """
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        gone = shim is None or shim.is_gone
        found = read_status(folder)
        if found.program_pid is not None or found.exit is not None or found.state == "lost":
            return found
        if gone and found.state == "never_started":
            if (folder / "claim").exists():
                return found
            raise DriverError(f"The program's host process did not start: {_last_log(folder)}")
        if gone:
            time.sleep(POLL_S)
        else:
            shim.hear(POLL_S)
    raise DriverError("The program's host process did not start in time.")


def _last_log(folder: Path) -> str:
    try:
        return (folder / "log").read_text(errors="replace").strip()[-300:]
    except FileNotFoundError:
        return "its log is empty"


def _settle(folder: Path) -> ShimStatus:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # a runner may have died before it made the folder
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
    """Wait until no program of a dead shim is left. The Run's init ends it by itself; this makes sure."""
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
    """One viewer's connection to a shim, opened when needed."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.connection = None
        self.reported = -REPORT_BYTES  # so that the first report is sent at once, at any offset

    async def news(self, offset: int, sizes: int | None = None) -> bool:
        """Wait until there is output beyond `offset` or a further resize. Return False when there never will be."""
        request = {"op": "wait", "offset": offset} | ({} if sizes is None else {"sizes": sizes})
        try:
            answer = await self.ask(request)
            self.reported = offset
            return not answer["ended"]
        except OSError:
            self.close()
            if read_status(self.folder).state != "running":
                return False
            await asyncio.sleep(0.02)
            return True

    async def reading(self, offset: int) -> None:
        """Report this viewer's offset every REPORT_BYTES, so that the shim does not drop what it reads next."""
        if offset - self.reported < REPORT_BYTES:
            return
        self.reported = offset
        try:
            await self.ask({"op": "reading", "offset": offset})
        except OSError:
            self.close()  # the shim has exited; the recording is still read to its end

    async def ask(self, request: dict) -> dict:
        if self.connection is None:
            self.connection = await _connect(self.folder)
        return await _exchange(self.connection, request)

    def close(self) -> None:
        if self.connection is not None:
            self.connection[1].close()
            self.connection = None


async def _control(program: Path | ShimEnd, request: dict) -> None:
    try:
        await _ask(program, request)
    except DriverError:
        if await _end_of(program).is_running():
            raise


async def _ask(program: Path | ShimEnd, request: dict) -> dict:
    try:
        connection = await _end_of(program).connect()
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

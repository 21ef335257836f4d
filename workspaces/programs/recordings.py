"""Read the recorded output of commands and terminals: from the folder of their shim, or through the lead's runner.

Works the same while the program runs and after its end. A line of text marks output that was not kept.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from urllib.parse import urlencode

from django.conf import settings

from dashboard.database.threads import query_in_thread
from dashboard.problems import Problem
from dashboard.web.pages import in_threads
from workspaces import operations
from workspaces.drivers.base import DriverError
from workspaces.host import leads, paths
from workspaces.host.leads import Lead, Unreachable
from workspaces.operations import runner_client
from workspaces.programs import kept_recordings
from workspaces.shim import client
from workspaces.shim.record import Exit, ShimStatus
from workspaces.shim.recording import Gap, Output, Reader, Resized, asciicast, gap_message, segments

READ_BYTES = 1 << 18  # read at once
START_TIMEOUT_S = 10.0  # a follower waits this long for the program to start
START_POLL_S = 0.05
AWAY_POLL_S = 1.0  # before a follower looks again for a host that is away
STATUS_TIMEOUT_S = 10.0


def of(program) -> "Recording":
    """Return the recording of a Command or Terminal. Problem 503 if its workspace is on a host without an address.

    That of an ended program is read from the bucket where its host does not have it, or does not answer. In a
    coroutine, `program` must have been loaded with `workspace__runner`.
    """
    workspace, lead = program.workspace, leads.lead_of(program.workspace)
    copy = kept_recordings.path_of(workspace.pk, program.operation_id) if _has_copy(program) else None
    if lead is None or (copy and not workspace.runner.is_alive):
        return Recording(paths.program_of(workspace.pk, program.operation_id), copy)
    if not lead.address:
        raise runner_client.elsewhere(workspace, lead)
    return RecordingElsewhere(workspace, program.operation_id, lead)


def _has_copy(program) -> bool:
    return bool(settings.HANDRAIL_BUCKET) and program.ended_at is not None and program.swept_at is None


async def recorded(program, offset: int) -> AsyncIterator[bytes]:
    """Return an iterator over what was recorded so far, from `offset` on. Problem 503 now if its host is away.

    Load `program` with `workspace__runner`.
    """
    return in_threads(await query_in_thread(_begun, program, offset))


def _begun(program, offset: int) -> Iterator[bytes]:
    """Return the pieces of a recording, the first of which has been read. Problem 404 if it was lost."""
    if host := lost_with(program):
        raise not_here(host)
    pieces = of(program).pieces(offset)
    return chain([next(pieces, b"")], pieces)


async def followed(program, offset: int) -> AsyncIterator[bytes]:
    """Yield the output from `offset` on as bytes until the program ends, also if its host is away meanwhile.

    If the host was lost, the last piece says so. Load `program` with `operation` and `workspace__runner`.
    """
    host = program.workspace.runner and program.workspace.runner.host
    while True:
        recording = await query_in_thread(of, program)
        try:
            async with aclosing(recording.followed_from(offset)) as parts:
                async for part in parts:
                    offset = part.end if isinstance(part, Gap) else part.offset + len(part.data)
                    yield as_bytes(part)
            return
        except (DriverError, Problem):
            await asyncio.sleep(AWAY_POLL_S)
        program = await query_in_thread(_loaded_anew, program)
        if await query_in_thread(_is_left_behind, program, host):
            yield f"\r\n[{host} is lost, and with it what this printed from here on]\r\n".encode()
            return


def _loaded_anew(program):
    rows = type(program).objects.select_related("operation", "workspace__runner")
    return rows.get(pk=program.pk)


def _is_left_behind(program, host: str | None) -> bool:
    """Return whether a program is over whose recording nobody has, as its host or that host's folder was lost."""
    runner = program.workspace.runner
    is_there = (runner and runner.host) == host and not _was_lost_on(program)
    if is_there or not operations.is_over(program.operation):
        return False
    try:
        return not of(program).about()["exists"]
    except Problem:  # the host that leads it now does not answer either
        return False


def lost_with(program) -> str:
    """Return the host on which alone the recording of a program was, and which was lost; "" if it can be read."""
    host = _was_lost_on(program)
    return host if host and not of(program).about()["exists"] else ""


def _was_lost_on(program) -> str:
    return ((program.operation.outcome or {}).get("evidence") or {}).get("host", "")


def not_here(host: str) -> Problem:
    return Problem(404, f"What it printed was on {host} alone, and is lost.")


class Recording:
    """The output of a program of this host, or of one whose recording is in the bucket, and how the program goes."""

    def __init__(self, folder: Path, copy: Path | None = None):
        self._folder = folder
        self._fetched = kept_recordings.Fetched(copy) if copy else None
        self.end: client.ShimEnd | Path = folder  # what the functions of shim/client.py take

    @property
    def folder(self) -> Path:
        """The folder of the program, or one with the copy from the bucket."""
        if self._fetched is None or self._folder.exists():
            return self._folder
        return self._fetched.folder() or self._folder

    def status(self) -> ShimStatus:
        """Return the state according to the files in the folder."""
        return client.status(self.folder)

    def about(self) -> dict:
        """Return {exists, began_at, printed_at, length}: times as Unix times, None before; length in bytes."""
        return {
            "exists": self.folder.exists(),
            "began_at": _changed_at(self.folder / "claim"),
            "printed_at": _changed_at(self.folder / "index"),
            "length": max((start + size for start, size in segments(self.folder)), default=0),
        }

    def length(self) -> int:
        """Return the end offset of the output so far."""
        return self.about()["length"]

    def began_at(self) -> datetime | None:
        return _moment(self.about()["began_at"])

    def printed_at(self) -> datetime | None:
        """Return when the program last printed."""
        return _moment(self.about()["printed_at"])

    def has_started(self) -> bool:
        return (self.folder / "claim").exists()

    def pieces(self, offset: int = 0) -> Iterator[bytes]:
        """Yield the output recorded so far, from `offset` on."""
        folder = self.folder
        reader = Reader(folder, offset)
        try:
            while (part := reader.next(READ_BYTES)) is not None:
                yield as_bytes(part)
            end = client.status(folder).exit if folder.exists() else None
            if end is not None and end.output_bytes > reader.offset:
                yield as_bytes(Gap(reader.offset, end.output_bytes))
        finally:
            reader.close()

    def tail(self, size: int) -> tuple[bytes, int]:
        """Return the last `size` bytes of the output so far, and the number of bytes before them."""
        offset = max(0, self.length() - size)
        data = b"".join(self.pieces(offset))
        return data[-size:], offset + max(0, len(data) - size)

    def cast(self, **about) -> Iterator[str]:
        """Yield the lines of an asciicast, version 2; `about` as `asciicast` takes it."""
        return asciicast(self.folder, **about)

    async def parts(self, offset: int, *, follow=True, sizes=False) -> AsyncIterator[Output | Gap | Resized]:
        """Yield the output from `offset` on, as shim/client.py `attach` does."""
        folder = await query_in_thread(lambda: self.folder)
        async with aclosing(client.attach(folder, offset, follow=follow, sizes=sizes)) as parts:
            async for part in parts:
                yield part

    async def followed_from(self, offset: int) -> AsyncIterator[Output | Gap]:
        """Yield the output from `offset` on until the program ends; nothing if it does not start."""
        await self._until_started()
        if await query_in_thread(self._is_there):
            async with aclosing(self.parts(offset)) as parts:
                async for part in parts:
                    yield part

    def _is_there(self) -> bool:
        return self.folder.exists()

    async def _until_started(self):
        for _ in range(round(START_TIMEOUT_S / START_POLL_S)):
            if await query_in_thread(self.has_started):
                return
            await asyncio.sleep(START_POLL_S)


class RecordingElsewhere(Recording):
    """The same of a program that another host's runner leads."""

    def __init__(self, workspace, program_id, lead: Lead):
        self.workspace, self.lead, self.path = workspace, lead, f"programs/{program_id}"
        self.end = _End(self)

    def status(self) -> ShimStatus:
        found = self.about()["status"]
        return ShimStatus(**found | {"exit": found["exit"] and _exit(found["exit"])})

    def about(self) -> dict:
        """Return what the lead says of it, with `status` besides. Problem 503 if it does not answer."""
        return runner_client.ask("GET", self.workspace, self.path, timeout=STATUS_TIMEOUT_S)

    def has_started(self) -> bool:
        return self.about()["began_at"] is not None

    def pieces(self, offset: int = 0) -> Iterator[bytes]:
        yield from runner_client.pieces(self.workspace, f"{self.path}/output", offset=offset)

    def tail(self, size: int) -> tuple[bytes, int]:
        answer = b"".join(runner_client.pieces(self.workspace, f"{self.path}/tail", size=size))
        before, _, data = answer.partition(b"\n")
        return data, int(before)

    def cast(self, **about) -> Iterator[str]:
        told = json.dumps(about)
        for piece in runner_client.pieces(self.workspace, f"{self.path}/cast", about=told):
            yield piece.decode()

    async def parts(self, offset: int, *, follow=True, sizes=False) -> AsyncIterator[Output | Gap | Resized]:
        """Yield the parts that the lead sends. DriverError if the connection ends before the output does."""
        asked = urlencode({"offset": offset, "follow": int(follow), "sizes": int(sizes)})
        reader, writer = await self.open(f"parts?{asked}")
        try:
            while (told := json.loads(await reader.readline() or b'{"broken": true}')) != {"end": True}:
                yield await _part(told, reader)
        except (OSError, EOFError, ValueError) as error:
            raise DriverError(f"The connection to {self.lead.host} broke.") from error
        finally:
            writer.close()

    def _is_there(self) -> bool:
        return self.about()["exists"]

    async def open(self, what: str):
        """Return (reader, writer) of a stream of the lead. DriverError if it cannot be reached."""
        try:
            return await leads.open_stream(self.lead, f"/workspaces/{self.workspace.pk}/{self.path}/{what}")
        except Unreachable as error:
            raise DriverError(f"{self.lead.host} cannot be reached: {error}.") from error


class _End(client.ShimEnd):
    """The shim of a program that another host's runner leads."""

    def __init__(self, recording: RecordingElsewhere):
        self._recording = recording

    async def connect(self):
        try:
            return await self._recording.open("shim")
        except DriverError as error:
            raise ConnectionError(str(error)) from error

    async def is_running(self) -> bool:
        return (await query_in_thread(self._recording.status)).state == "running"


async def _part(told: dict, reader: asyncio.StreamReader) -> Output | Gap | Resized:
    if "output" in told:
        return Output(told["output"], await reader.readexactly(told["bytes"]))
    if "gap" in told:
        return Gap(*told["gap"])
    if "size" in told:
        return Resized(*told["size"])
    raise EOFError


def _exit(told: dict) -> Exit:
    return Exit(**told | {name: tuple(told[name]) for name in ("leftovers", "blocked")})


def told(recording: Recording) -> dict:
    """Return what `RecordingElsewhere` reads of a recording of this host."""
    return recording.about() | {"status": asdict(recording.status())}


def as_bytes(part: Output | Gap) -> bytes:
    return part.data if isinstance(part, Output) else f"\r\n[{gap_message(part)}]\r\n".encode()


def _changed_at(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return None


def _moment(timestamp: float | None) -> datetime | None:
    return None if timestamp is None else datetime.fromtimestamp(timestamp, UTC)

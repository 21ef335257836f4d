"""Carry bytes between two connections: whole tunnels, or exactly one HTTP exchange. Nothing is buffered as a whole."""

import asyncio
import contextlib
import re
from dataclasses import dataclass

from .head import BadHead, Head, read_head

IDLE_S = 600.0  # nothing in either direction; a model may think for minutes
PART = 256 * 1024
CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(;[\t\x20-\x7e]*)?\r\n")
GONE = (ConnectionError, asyncio.IncompleteReadError, TimeoutError, OSError)


@dataclass
class Verdict:
    """One try of a program to reach a host, and what passed: `sent` towards the host, `received` from it."""

    host: str
    port: int
    method: str
    allowed: bool = False
    why: str = ""  # in words, where it was not allowed
    sent: int = 0
    received: int = 0


@dataclass
class Side:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def close(self):
        self.writer.close()
        with contextlib.suppress(*GONE):
            await self.writer.wait_closed()

    def end(self):
        """Say that nothing more comes, and go on listening."""
        with contextlib.suppress(OSError, RuntimeError):
            if self.writer.can_write_eof() and not self.writer.is_closing():
                self.writer.write_eof()


class Flow:
    """Counts what passes between a program and a host, and ends a connection on which nothing moves."""

    def __init__(self, verdict: Verdict):
        self.verdict = verdict
        self._limit: asyncio.Timeout | None = None

    @contextlib.asynccontextmanager
    async def moving(self):
        async with asyncio.timeout(IDLE_S) as self._limit:
            yield

    def _moved(self):
        self._limit.reschedule(asyncio.get_running_loop().time() + IDLE_S)

    async def up(self, data: bytes, host: Side):
        host.writer.write(data)
        self.verdict.sent += len(data)
        await host.writer.drain()
        self._moved()

    async def down(self, data: bytes, program: Side):
        program.writer.write(data)
        self.verdict.received += len(data)
        await program.writer.drain()
        self._moved()


async def tunnel(program: Side, host: Side, flow: Flow, first: bytes):
    """Both directions until both have ended. `first` goes to the host before all else."""

    async def copy(source: Side, to: Side, pass_on):
        while data := await source.reader.read(PART):
            await pass_on(data, to)
        to.end()

    async with flow.moving():
        await flow.up(first, host)
        await _all(copy(program, host, flow.up), copy(host, program, flow.down))


async def _all(*work):
    """Until each has ended or one has failed; then none goes on."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def exchange(program: Side, host: Side, flow: Flow, request: Head, head: bytes):
    """One request and its answer. `head` is the request's as it is sent; whatever follows its body is not read.

    BadHead when the answer cannot be understood, before anything of it was passed on.
    """
    async with flow.moving():
        await flow.up(head, host)
        body = asyncio.create_task(_body(request, program.reader, flow.up, host))
        try:
            answer = await _answer_head(program, host, flow)
            await flow.down(answer.with_fields(), program)
            if request.first[0] != "HEAD" and answer.first[1] not in ("204", "304"):
                await _body(answer, host.reader, flow.down, program, until_end=True)
        finally:
            body.cancel()
            await asyncio.gather(body, return_exceptions=True)


async def _answer_head(program: Side, host: Side, flow: Flow) -> Head:
    while True:
        answer = await read_head(host.reader)
        status = answer.first[1]
        if not answer.first[0].startswith("HTTP/1.") or not re.fullmatch(r"[1-5][0-9][0-9]", status) or status == "101":
            raise BadHead("The answer makes no sense.")
        if status[0] != "1":
            return answer
        if status == "100":
            await flow.down(b"HTTP/1.1 100 Continue\r\n\r\n", program)


async def _body(head: Head, reader, pass_on, to: Side, *, until_end=False):
    """As long as the head says. `until_end`: without a length it ends with the connection, as answers may."""
    if head.chunked:
        await _chunks(reader, pass_on, to)
    elif head.length is not None:
        await _exactly(head.length, reader, pass_on, to)
    elif until_end:
        while data := await reader.read(PART):
            await pass_on(data, to)


async def _exactly(size: int, reader, pass_on, to: Side):
    while size:
        data = await reader.read(min(size, PART))
        if not data:
            raise ConnectionResetError("the body was cut short")
        size -= len(data)
        await pass_on(data, to)


async def _chunks(reader, pass_on, to: Side):
    """Each chunk framed anew, without extensions and without trailers."""
    while True:
        line = CHUNK_LINE.fullmatch(await reader.readuntil(b"\r\n"))
        if not line:
            raise ConnectionResetError("a chunk made no sense")
        size = int(line[1], 16)
        await pass_on(b"%x\r\n" % size, to)
        if not size:
            while await reader.readuntil(b"\r\n") != b"\r\n":
                pass
            await pass_on(b"\r\n", to)
            return
        await _exactly(size, reader, pass_on, to)
        if await reader.readexactly(2) != b"\r\n":
            raise ConnectionResetError("a chunk made no sense")
        await pass_on(b"\r\n", to)

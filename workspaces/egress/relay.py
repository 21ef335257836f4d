"""Relay bytes between two connections: a tunnel, or one HTTP exchange. Bodies are streamed, never buffered whole."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import h11

from dashboard.net.upstream import ProxyAddress

from .attempts import Attempt
from .http_head import MAX_HEAD_BYTES, forwarded_response, read_response, switched

IDLE_TIMEOUT = 600.0  # seconds without bytes in either direction; a model may take minutes to respond
HOLD_TIMEOUT = 25 * 3600.0  # the same for requests to Handrail, which holds a hook for a day
READ_BYTES = 256 * 1024
DISCONNECTED = (ConnectionError, asyncio.IncompleteReadError, TimeoutError, OSError)


@dataclass
class Peer:
    """One end of a relayed connection: the program or the host."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    proxy: ProxyAddress | None = None  # of a company, that takes a plain request with its whole address

    async def close(self):
        self.writer.close()
        with contextlib.suppress(*DISCONNECTED):
            await self.writer.wait_closed()

    def end(self):
        """Half-close the connection: send EOF, keep reading."""
        with contextlib.suppress(OSError, RuntimeError):
            if self.writer.can_write_eof() and not self.writer.is_closing():
                self.writer.write_eof()


class Flow:
    """Count the bytes relayed between a program and a host; time out an idle connection."""

    def __init__(self, attempt: Attempt, idle_seconds: float | None = None):
        self.attempt, self.idle_seconds = attempt, idle_seconds or IDLE_TIMEOUT
        self._limit: asyncio.Timeout | None = None
        self._moved = 0.0  # when the limit was moved last, by the loop's clock

    @contextlib.asynccontextmanager
    async def idle_timeout(self):
        async with asyncio.timeout(self.idle_seconds) as self._limit:
            yield

    async def up(self, parts: Sequence[bytes], host: Peer):
        self.attempt.sent += sum(map(len, parts))
        await self._write(parts, host)

    async def down(self, parts: Sequence[bytes], program: Peer):
        self.attempt.received += sum(map(len, parts))
        await self._write(parts, program)

    async def _write(self, parts: Sequence[bytes], to: Peer):
        if len(parts) == 1:
            to.writer.write(parts[0])  # writelines copies
        else:
            to.writer.writelines(parts)
        await to.writer.drain()
        now = asyncio.get_running_loop().time()
        if now - self._moved > self.idle_seconds / 100:  # a timer for each piece would cost more than the piece
            self._moved = now
            self._limit.reschedule(now + self.idle_seconds)


async def tunnel(program: Peer, host: Peer, flow: Flow, first: bytes):
    """Relay both directions until both have reached EOF. Send `first` to the host before anything else."""
    async with flow.idle_timeout():
        await flow.up([first], host)
        await _both_ways(program, host, flow)


async def _both_ways(program: Peer, host: Peer, flow: Flow):
    async def copy(source: Peer, to: Peer, pass_on):
        while data := await source.reader.read(READ_BYTES):
            await pass_on([data], to)
        to.end()

    await _all(copy(program, host, flow.up), copy(host, program, flow.down))


async def _all(*work):
    """Run coroutines concurrently; when one fails, cancel the rest and raise its error."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def exchange(
    program: Peer,
    host: Peer,
    flow: Flow,
    client: h11.Connection,
    request: h11.Request,
    *,
    until_closed: bool = False,
    body: bytes | None = None,
):
    """Send `request` to the host and relay its body and the response; bytes after the body are not used.

    `body` is the request's body if it was read already.

    Where the request asks for a WebSocket and the host agrees, both directions are relayed until both have ended.

    `client` is the connection that parsed the program's request. Raise BadHead for an invalid response head, before
    any of it was forwarded; with `until_closed` ConnectionResetError once the program has closed its end.
    """
    server = h11.Connection(h11.CLIENT, MAX_HEAD_BYTES)
    async with flow.idle_timeout():
        await flow.up([server.send(request)], host)
        sending = asyncio.create_task(
            pass_body(request, program.reader, client, server, flow.up, host)
            if body is None
            else send_whole(body, server, flow, host)
        )
        answer = asyncio.create_task(_answer(program, host, flow, client, server))
        tasks = [answer, sending, *([asyncio.create_task(_closed(program, sending))] if until_closed else ())]
        try:
            await asyncio.wait((answer, *tasks[2:]), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                raise ConnectionResetError("the program closed its connection")
            is_websocket = await answer
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if is_websocket:
            await _both_ways(program, host, flow)


async def _answer(program: Peer, host: Peer, flow: Flow, client: h11.Connection, server: h11.Connection) -> bool:
    """Relay the response; return True if the connection is a WebSocket from here on."""
    response = await _final_response(program, host, flow, client, server)
    if isinstance(response, h11.InformationalResponse):
        await flow.down([client.send(switched(response))], program)
        return True
    await flow.down([client.send(forwarded_response(response))], program)
    await pass_body(response, host.reader, server, client, flow.down, program)
    return False


async def _closed(program: Peer, body: asyncio.Task):
    """Return once the program has closed its end of the connection, also within the body of its request."""
    await asyncio.wait((body,))
    while await program.reader.read(READ_BYTES):
        pass


async def _final_response(program: Peer, host: Peer, flow: Flow, client: h11.Connection, server: h11.Connection):
    """Read up to the head of the final response or of 101. Forward 100 Continue, drop other informational ones."""
    while not isinstance(response := await read_response(host.reader, server), h11.Response):
        if response.status_code == 101:
            break
        if response.status_code == 100:
            await flow.down([client.send(h11.InformationalResponse(status_code=100, headers=[]))], program)
    return response


async def pass_body(
    head, reader: asyncio.StreamReader, source: h11.Connection, target: h11.Connection, pass_on, to: Peer
):
    """Relay the body that `source` receives in the framing of `target`. Drop chunk extensions and trailers."""
    parts, ended = _available(source, target)
    if not ended and (lengths := [value for name, value in head.headers if name == b"content-length"]):
        return await _exactly(int(lengths[0]), reader, pass_on, to)  # h11 would copy each byte three times
    while not ended:
        source.receive_data(await reader.read(READ_BYTES))
        parts, ended = _available(source, target)
        if parts:
            await pass_on(parts, to)


async def send_whole(body: bytes, target: h11.Connection, flow: Flow, host: Peer):
    """Send a body that was read already."""
    parts = [target.send(h11.Data(data=body))] if body else []
    await flow.up([*parts, target.send(h11.EndOfMessage())], host)


async def _exactly(size: int, reader: asyncio.StreamReader, pass_on, to: Peer):
    while size:
        data = await reader.read(min(size, READ_BYTES))
        if not data:
            raise ConnectionResetError("incomplete body")
        size -= len(data)
        await pass_on([data], to)


def _available(source: h11.Connection, target: h11.Connection) -> tuple[list[bytes], bool]:
    """Return the bytes to send for what `source` has received so far, and True at the end of the body."""
    parts = []
    try:
        while (event := source.next_event()) is not h11.NEED_DATA:
            if isinstance(event, h11.EndOfMessage):
                return parts + target.send_with_data_passthrough(h11.EndOfMessage()), True
            parts += target.send_with_data_passthrough(event)
    except h11.RemoteProtocolError as error:
        raise ConnectionResetError("invalid or incomplete body") from error
    return parts, False

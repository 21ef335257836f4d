"""Requests to a host that a credential names, in TLS that the proxy opened: one request for each connection.

The real value is put in where the leash covers the request, or a person approved it; and taken out of what comes back.
"""

import asyncio
import hashlib
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import h11

from .answers import Refused, send_error
from .attempts import Attempt, Block, BlockCode
from .authority import Authority
from .http_head import MAX_HEAD_BYTES, BadHead, RequestHead, forwarded_response, read_request, read_response
from .leash import OVERRIDES, Leashed
from .names import BadName, host_and_port
from .relay import DISCONNECTED, READ_BYTES, Flow, Peer, tunnel

HEAD_TIMEOUT = 20.0
HOLD_TIMEOUT = 25 * 3600.0
MAX_HELD_BODY = 8 * 1024**2  # bytes of a request that a person is asked about
BUFFER_BYTES = 256 * 1024
LINGER_TIMEOUT = 2.0
TLS_PORT = 443


class Scrubber(Protocol):
    """Takes the real values out of a stream."""

    def feed(self, data: bytes) -> bytes: ...

    def flush(self) -> bytes: ...


@dataclass(frozen=True)
class Use:
    """One request that a credential is put into; `path` has no query."""

    credential: Leashed
    host: str
    port: int
    method: str
    path: str
    query: bool = False
    body_sha256: str = ""
    body_bytes: int = 0


class Leashes(Protocol):
    """What the runner knows of the credentials of one Run."""

    authority: Authority
    tls: Callable[[], ssl.SSLContext]  # for the connection to the host itself

    async def at(self, host: str, port: int) -> Sequence[Leashed]:
        """Return the credentials that name the host; none where TLS is not opened."""

    async def used(self, use: Use) -> None:
        """Record a use within the leash, before it is sent."""

    async def ask(self, use: Use) -> str:
        """Hold a use beyond the leash for a person. Return "" once it may be sent, this once, else why not."""

    def scrubber(self, credentials: Sequence[Leashed]) -> Scrubber: ...


@dataclass
class Opened:
    """A connection of a program to a host whose TLS is opened, and which `connect` connects to, without TLS yet."""

    leashes: Leashes
    credentials: Sequence[Leashed]
    attempt: Attempt
    connect: Callable[[], Awaitable[Peer]]
    log_blocked: Callable[[Attempt], None]

    def blocked(self, code: BlockCode, words: str):
        block = Block(code, words)
        self.log_blocked(Attempt(self.attempt.host, self.attempt.port, self.attempt.method, block=block))

    async def serve(self, program: Peer, hello: bytes):
        """Answer one request in TLS with our certificate for the host."""
        ours, theirs = socket.socketpair()
        outer = Peer(*await asyncio.open_connection(sock=ours, limit=BUFFER_BYTES))
        carrying = asyncio.create_task(tunnel(program, outer, Flow(Attempt("", 0, "")), hello))
        inner = None
        try:
            async with asyncio.timeout(HEAD_TIMEOUT):
                inner = await _accepted(theirs, self.leashes.authority.context_for(self.attempt.host))
            await self._answer(inner)
        except ssl.SSLError as error:
            # The alert of a program that pins certificates, or does not know the workspace's authority.
            words = f"the program refused the certificate of the workspace ({error.reason or 'no reason'})"
            self.blocked(BlockCode.UNVERIFIABLE, words)
        finally:
            await self._end(carrying, inner, outer)
            theirs.close()

    async def _end(self, carrying: asyncio.Task, inner: Peer | None, outer: Peer):
        """Let the program have all that was written, and end the connections: TLS would wait for the last words."""
        try:
            # A second close would part the transport from its TLS, and nothing could end it any more.
            if inner is not None and not inner.writer.is_closing():
                inner.writer.close()
            await asyncio.wait((carrying,), timeout=LINGER_TIMEOUT)
        finally:
            carrying.cancel()
            for peer in filter(None, (inner, outer)):
                peer.writer.transport.abort()
            await asyncio.gather(carrying, return_exceptions=True)
            await asyncio.sleep(0)  # the transports close their sockets in the loop's next turn

    async def _answer(self, program: Peer):
        server = None
        try:
            async with asyncio.timeout(HEAD_TIMEOUT):
                head = await read_request(program.reader)
            head, use = self._read(head)
            body = None
            if use is not None:
                head, body = await self._with_credential(head, use, program)
            server = await self.connect()
            await self._secure(server)
            await self._exchange(program, server, head, body)
        except BadHead as error:
            await send_error(program, 400, str(error))
        except Refused as refused:
            await send_error(program, refused.status, str(refused))
        finally:
            if server is not None:
                server.writer.transport.abort()  # TLS would wait for its last words

    def _read(self, head: RequestHead) -> tuple[RequestHead, Use | None]:
        """Check the request; return it, and how it would use a credential. Raise BadHead, Refused."""
        if head.method == "CONNECT" or not head.target.startswith("/"):
            raise BadHead("Only a path is asked for here, such as /repos.")
        self._check_host(head)
        if head.all("upgrade"):
            raise Refused(403, "Blocked by Handrail. A connection to a host of a credential can't become another one.")
        shown = [one for one in self.credentials if any(map(one.put_into, head.all(one.header)))]
        if not shown:
            return head, None
        if len(shown) > 1 or len(head.all(shown[0].header)) > 1:
            raise BadHead("The request shows more than one credential.")
        if found := OVERRIDES & {name for name, _ in head.fields}:
            raise BadHead(f"A request with a credential has no {min(found)} field, which changes its method or path.")
        path, mark, _ = head.target.partition("?")
        if "#" in head.target:
            raise BadHead("A path has no #.")
        return head, Use(shown[0], self.attempt.host, self.attempt.port, head.method, path, bool(mark))

    def _check_host(self, head: RequestHead):
        try:
            named = [host_and_port(value, TLS_PORT) for value in head.all("host")]
        except BadName:
            named = []
        if named != [(self.attempt.host, self.attempt.port)]:
            self.blocked(BlockCode.HOST_MISMATCH, "the Host field names another host than the tunnel")
            raise Refused(421, "Blocked by Handrail. The Host field names another host than the tunnel.")

    async def _with_credential(self, head: RequestHead, use: Use, program: Peer) -> tuple[RequestHead, bytes | None]:
        """Return the request with the real value in it, and its body if that was read. Raise Refused."""
        body, leash = None, use.credential.at(use.host, use.port)
        if leash.covers(use.method, use.path):
            await self.leashes.used(use)
        else:
            body = await _whole_body(head, program)
            use = replace(use, body_sha256=hashlib.sha256(body).hexdigest(), body_bytes=len(body))
            if why := await self._held(use, program):
                raise Refused(403, f"Blocked by Handrail. {why}")
        fields = [
            (name, use.credential.put_into(value) or value if name == use.credential.header else value)
            for name, value in head.fields
        ]
        return replace(head, fields=fields), body

    async def _held(self, use: Use, program: Peer) -> str:
        """Return what `ask` returns; end it when the program goes away meanwhile."""
        asking = asyncio.ensure_future(self.leashes.ask(use))
        leaving = asyncio.ensure_future(program.reader.read(1))
        try:
            async with asyncio.timeout(HOLD_TIMEOUT):
                await asyncio.wait({asking, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise ConnectionResetError("the program closed its connection")
            return await asking
        finally:
            for task in (asking, leaving):
                task.cancel()
            await asyncio.gather(asking, leaving, return_exceptions=True)

    async def _secure(self, host: Peer):
        """Begin TLS on the connection to the host, and check its certificate. Raise Refused."""
        try:
            async with asyncio.timeout(HEAD_TIMEOUT):
                await host.writer.start_tls(self.leashes.tls(), server_hostname=self.attempt.host)
        except ssl.SSLCertVerificationError as error:
            words = f"The certificate of {self.attempt.host} is not trusted: {error.verify_message}."
            raise Refused(502, words) from None
        except DISCONNECTED:
            raise Refused(502, f"{self.attempt.host} ended TLS.") from None

    # Both ways -------------------------------------------------------------------------------------------------------

    async def _exchange(self, program: Peer, host: Peer, head: RequestHead, body: bytes | None):
        # Uncompressed, so that the value can be taken out of what comes back.
        out = head.forwarded(("accept-encoding", "identity"), without=frozenset(("accept-encoding", "expect")))
        server, flow = h11.Connection(h11.CLIENT, MAX_HEAD_BYTES), Flow(self.attempt)
        if body is None and head.all("expect"):
            program.writer.write(head.connection.send(h11.InformationalResponse(status_code=100, headers=[])))
        async with flow.idle_timeout():
            await flow.up([server.send(out)], host)
            sending = asyncio.create_task(_send(head, program, server, host, flow, body))
            sending.add_done_callback(lambda task: task.cancelled() or (task.exception() and host.writer.close()))
            try:
                await self._return(program, host, flow, head.connection, server)
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)

    async def _return(self, program: Peer, host: Peer, flow: Flow, client: h11.Connection, server: h11.Connection):
        try:
            while not isinstance(response := await read_response(host.reader, server), h11.Response):
                if response.status_code == 101:
                    raise BadHead("The host switched protocols without being asked.")
        except BadHead as error:
            raise Refused(502, f"{self.attempt.host} gave no answer that can be passed on. {error}") from None
        codings = [value for name, value in response.headers if name == b"content-encoding" and value != b"identity"]
        if codings:
            words = "answered in a coding that was not asked for, so it can't be searched for the credential"
            raise Refused(502, f"{self.attempt.host} {words}.")
        await flow.down([client.send(self._clean(response))], program)
        scrubber = self.leashes.scrubber(self.credentials)
        async for data in _body(server, host.reader):
            if clean := scrubber.feed(data):
                await flow.down([client.send(h11.Data(data=clean))], program)
        if rest := scrubber.flush():
            await flow.down([client.send(h11.Data(data=rest))], program)
        await flow.down([client.send(h11.EndOfMessage())], program)

    def _clean(self, response: h11.Response) -> h11.Response:
        """Return the head of the answer without the real values. Its length may change with them."""
        response = forwarded_response(response)
        is_kept = response.status_code in (204, 304)
        headers = [
            (name, self._without(value))
            for name, value in response.headers
            if (is_kept or name != b"content-length" or value == b"0") and not self._names(name)
        ]
        return h11.Response(status_code=response.status_code, reason=self._without(response.reason), headers=headers)

    def _names(self, field: bytes) -> bool:
        """Whether a field's name, in lower case, holds a real value."""
        return any(one.value.lower().encode() in field for one in self.credentials)

    def _without(self, value: bytes) -> bytes:
        scrubber = self.leashes.scrubber(self.credentials)
        return scrubber.feed(bytes(value)) + scrubber.flush()


async def _send(head: RequestHead, program: Peer, server: h11.Connection, host: Peer, flow: Flow, body: bytes | None):
    """Send the body on: `body` if it was read already."""
    if body is not None:
        parts = [server.send(h11.Data(data=body))] if body else []
        await flow.up([*parts, server.send(h11.EndOfMessage())], host)
        return
    async for data in _body(head.connection, program.reader):
        await flow.up([server.send(h11.Data(data=data))], host)
    await flow.up([server.send(h11.EndOfMessage())], host)


async def _accepted(sock: socket.socket, context: ssl.SSLContext) -> Peer:
    """Return the server's end of TLS on a connected socket."""
    loop = asyncio.get_running_loop()
    sock.setblocking(False)
    reader = asyncio.StreamReader(limit=BUFFER_BYTES, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, sock, ssl=context)
    return Peer(reader, asyncio.StreamWriter(transport, protocol, reader, loop))


async def _body(source: h11.Connection, reader: asyncio.StreamReader):
    """Yield the data of the message that `source` is reading."""
    try:
        while True:
            event = source.next_event()
            if event is h11.NEED_DATA:
                source.receive_data(await reader.read(READ_BYTES))
            elif isinstance(event, h11.Data):
                yield bytes(event.data)
            else:
                return
    except h11.RemoteProtocolError as error:
        raise ConnectionResetError("invalid or incomplete body") from error


async def _whole_body(head: RequestHead, program: Peer) -> bytes:
    """Return the body of a request that a person is asked about. Raise Refused for a long one."""
    if head.all("expect"):
        program.writer.write(head.connection.send(h11.InformationalResponse(status_code=100, headers=[])))
    found = bytearray()
    async with asyncio.timeout(HEAD_TIMEOUT * 3):
        async for data in _body(head.connection, program.reader):
            found += data
            if len(found) > MAX_HELD_BODY:
                raise Refused(413, f"A person is asked about at most {MAX_HELD_BODY // 1024**2} MB.")
    return bytes(found)

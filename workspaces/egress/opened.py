"""Requests to a host that a credential or a rule by method names, in TLS that the proxy opened: one per connection.

The gate says what may be sent, and puts real values in; here they are taken out of what comes back.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import h11

from . import tls_sessions
from .answers import Refused, linger, send_error
from .attempts import BlockCode
from .http_head import MAX_HEAD_BYTES, BadHead, RequestHead, forwarded_response, read_request, read_response
from .names import BadName, host_and_port
from .relay import DISCONNECTED, Flow, Peer, exchange, pass_body, send_whole
from .request_gate import RequestGate, body_parts
from .tls_stream import secured

HEAD_TIMEOUT = 20.0
TLS_PORT = 443


@dataclass
class Opened:
    """A connection of a program to a host whose TLS is opened, and which `connect` connects to, without TLS yet."""

    gate: RequestGate
    connect: Callable[[], Awaitable[Peer]]

    def __post_init__(self):
        self.leashes, self.attempt = self.gate.leashes, self.gate.attempt

    @property
    def credentials(self):
        """Those that may be in the answer, as they were when the request was let through."""
        return self.gate.opening.credentials

    async def serve(self, program: Peer, hello: bytes):
        """Answer one request in TLS with our certificate for the host."""
        context = self.leashes.authority.context_for(self.attempt.host)
        try:
            async with asyncio.timeout(HEAD_TIMEOUT):
                inner = await secured(program, context, first=hello)
        except ssl.SSLError as error:
            # The alert of a program that pins certificates, or does not know the workspace's authority.
            words = f"the program refused the certificate of the workspace ({error.reason or 'no reason'})"
            self.gate.blocked(BlockCode.UNVERIFIABLE, words)
            return
        try:
            await self._answer(inner)
        finally:
            inner.writer.close()
        await linger(program)

    async def _answer(self, program: Peer):
        server = None
        try:
            async with asyncio.timeout(HEAD_TIMEOUT):
                head = await read_request(program.reader)
            self._check(head)
            await self.gate.look_again()
            head, body = await self.gate.passed(head, program)
            server = await self.connect()
            inner = await self._secured(server)
            await self._exchange(program, inner, head, body)
            tls_sessions.keep(self.leashes.tls(), self.attempt.host, self.attempt.port, inner.writer.tls)
        except BadHead as error:
            await send_error(program, 400, str(error))
        except Refused as refused:
            await send_error(program, refused.status, str(refused))
        finally:
            if server is not None:
                server.writer.transport.abort()
                await server.close()

    def _check(self, head: RequestHead):
        """Raise BadHead, Refused for a request that names no path of this host."""
        if head.method == "CONNECT" or not head.target.startswith("/"):
            raise BadHead("Only a path is asked for here, such as /repos.")
        try:
            named = [host_and_port(value, TLS_PORT) for value in head.all("host")]
        except BadName:
            named = []
        if named != [(self.attempt.host, self.attempt.port)]:
            self.gate.blocked(BlockCode.HOST_MISMATCH, "the Host field names another host than the tunnel")
            raise Refused(421, "Blocked by Handrail. The Host field names another host than the tunnel.")

    async def _secured(self, host: Peer) -> Peer:
        """Begin TLS on the connection to the host, and check its certificate. Raise Refused."""
        context, name = self.leashes.tls(), self.attempt.host
        session = tls_sessions.of(context, name, self.attempt.port)
        try:
            async with asyncio.timeout(HEAD_TIMEOUT):
                return await secured(host, context, server_name=name, session=session)
        except ssl.SSLCertVerificationError as error:
            words = f"The certificate of {self.attempt.host} is not trusted: {error.verify_message}."
            raise Refused(502, words) from None
        except DISCONNECTED:
            if session is not None:
                tls_sessions.refuse(context, name, self.attempt.port)
            raise Refused(502, f"{self.attempt.host} ended TLS.") from None

    # Both ways -------------------------------------------------------------------------------------------------------

    async def _exchange(self, program: Peer, host: Peer, head: RequestHead, body: bytes | None):
        flow = Flow(self.attempt)
        if body is None and head.all("expect"):
            program.writer.write(head.connection.send(h11.InformationalResponse(status_code=100, headers=[])))
        if not self.credentials:
            out = head.forwarded(without=frozenset(("expect",)))
            try:
                await exchange(program, host, flow, head.connection, out, body=body)
            except BadHead as error:
                raise self._no_answer(error) from None
            return
        # Uncompressed, so that a value can be taken out of what comes back.
        out = head.forwarded(("accept-encoding", "identity"), without=frozenset(("accept-encoding", "expect")))
        server = h11.Connection(h11.CLIENT, MAX_HEAD_BYTES)
        async with flow.idle_timeout():
            await flow.up([server.send(out)], host)
            sending = asyncio.create_task(
                pass_body(out, program.reader, head.connection, server, flow.up, host)
                if body is None
                else send_whole(body, server, flow, host)
            )
            sending.add_done_callback(
                lambda task: task.cancelled() or (task.exception() and host.writer.outer.writer.close())
            )
            try:
                await self._return(program, host, flow, head, server)
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)

    def _no_answer(self, error: BadHead) -> Refused:
        return Refused(502, f"{self.attempt.host} gave no answer that can be passed on. {error}")

    async def _return(self, program: Peer, host: Peer, flow: Flow, head: RequestHead, server: h11.Connection):
        client = head.connection
        try:
            while not isinstance(response := await read_response(host.reader, server), h11.Response):
                if response.status_code == 101:
                    raise BadHead("The host switched protocols without being asked.")
        except BadHead as error:
            raise self._no_answer(error) from None
        codings = [value for name, value in response.headers if name == b"content-encoding" and value != b"identity"]
        if codings:
            words = "answered in a coding that was not asked for, so it can't be searched for the credential"
            raise Refused(502, f"{self.attempt.host} {words}.")
        await flow.down([client.send(self._clean(response, head.method))], program)
        scrubber = self.leashes.scrubber(self.credentials)
        async for data in body_parts(server, host.reader, response.headers):
            if clean := scrubber.feed(data):
                await flow.down(client.send_with_data_passthrough(h11.Data(data=clean)), program)
        if rest := scrubber.flush():
            await flow.down(client.send_with_data_passthrough(h11.Data(data=rest)), program)
        await flow.down([client.send(h11.EndOfMessage())], program)

    def _clean(self, response: h11.Response, method: str) -> h11.Response:
        """Return the head of the answer without the real values. The length of a body may change with them."""
        response = forwarded_response(response)
        is_kept = method == "HEAD" or response.status_code in (204, 304)
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

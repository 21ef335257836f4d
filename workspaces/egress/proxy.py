"""The proxy of one Run: CONNECT and plain HTTP, by name, to what the Run's list allows and to nothing else."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Iterable
from typing import Protocol

from . import inside
from .addresses import Network, Resolve, Unresolved, ask_system, pinned
from .carry import GONE, Flow, Side, Verdict, exchange, tunnel
from .head import BadHead, Head, check_request, read_head
from .hello import ALERT, BadHello, read_hello
from .names import HANDRAIL, BadName, host_and_port, host_name

logger = logging.getLogger("handrail.egress")
HEAD_S = 20.0
CONNECT_S = 15.0
LINGER_S = 1.0
TRIES = 4  # addresses of one name
CONNECTIONS = 256  # of one Run at the same time
BUFFER = 256 * 1024
WORDS = {400: "Bad Request", 403: "Forbidden", 404: "Not Found", 408: "Request Timeout", 421: "Misdirected Request"}
WORDS |= {502: "Bad Gateway", 503: "Service Unavailable"}


class Site(Protocol):
    """What the proxy is told and tells about one Run."""

    async def judge(self, host: str, port: int) -> str:
        """ "" when the Run may reach it now, else why not, in words."""

    async def admit(self, verdict: Verdict) -> str:
        """Write down that it is let through, using up what allows it only once; why not, where that is gone."""

    def refuse(self, verdict: Verdict) -> None:
        """Write down that it was held back."""

    def over(self, verdict: Verdict) -> None:
        """Write down how much passed."""

    def way_out(self, host: str, port: int) -> str:
        """What a program can do about a host that is held back, in words."""


class Refused(Exception):
    """The answer to a program whose wish is not carried out: status and words."""

    def __init__(self, status: int, words: str):
        super().__init__(words)
        self.status = status


class Proxy:
    """`serve` takes the listening sockets; `close` ends every connection with them."""

    def __init__(
        self,
        site: Site,
        *,
        resolve: Resolve = ask_system,
        networks: Iterable[Network] = (),
        web: tuple[str, int] | None = None,
        workspace: str = "",
    ):
        self.site, self.resolve, self.networks = site, resolve, tuple(networks)
        self.web, self.workspace = web, workspace
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task] = set()

    async def serve(self, outward: socket.socket, inward: socket.socket | None = None):
        """`outward` is where programs find the proxy, `inward` where they find Handrail."""
        for listener, handle in ((outward, self._outward), (inward, self._inward)):
            if listener is not None:
                handler = self._guarded(handle)
                self._servers.append(await asyncio.start_server(handler, sock=listener, limit=BUFFER))

    async def close(self):
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _guarded(self, handle: Callable):
        async def guarded(reader, writer):
            task = asyncio.current_task()
            self._tasks.add(task)
            program = Side(reader, writer)
            try:
                await self._answered(handle, program)
            except GONE:
                pass  # nobody is there to hear of it
            except Exception:
                logger.exception("a connection of a workspace broke")
            finally:
                self._tasks.discard(task)
                writer.close()

        return guarded

    async def _answered(self, handle, program: Side):
        """Carry it out, or say in words why not."""
        try:
            if len(self._tasks) > CONNECTIONS:
                raise Refused(503, f"A workspace has at most {CONNECTIONS} connections at the same time.")
            await handle(program)
        except Refused as refused:
            await say(program, refused.status, str(refused))
        except BadHead as error:
            self.site.refuse(Verdict("", 0, "", why=str(error)))
            await say(program, 400, str(error))

    # Handrail itself

    async def _inward(self, program: Side):
        await self._to_handrail(program, await self._head(program))

    async def _to_handrail(self, program: Side, head: Head):
        if self.web is None:
            raise Refused(503, "Handrail is not reached from here.")
        try:
            request = inside.request_for_web(head, self.workspace)
        except inside.NotHere as error:
            raise Refused(error.status, str(error)) from None
        host = await self._connected([self.web[0]], self.web[1], "Handrail does not answer.")
        try:
            await exchange(program, host, Flow(Verdict(HANDRAIL, 80, head.first[0])), head, request)
        finally:
            await host.close()

    # The way out

    async def _head(self, program: Side, before: bytes = b"") -> Head:
        try:
            async with asyncio.timeout(HEAD_S):
                head = await read_head(program.reader, before)
        except TimeoutError:
            raise Refused(408, "The request did not come in time.") from None
        check_request(head)
        return head

    async def _outward(self, program: Side):
        head = await self._head(program)
        method, target, _ = head.first
        if method == "CONNECT":
            host, port = self._named(head, target, None, method)
            if (host, port) == (HANDRAIL, 80):
                program.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                return await self._inward(program)
            return await self._tunnel(program, host, port)
        scheme, found, rest = target.partition("://")
        if not found or scheme.lower() != "http" or "#" in target:
            raise BadHead("This is a proxy: it takes CONNECT, and http:// addresses as a whole.")
        cut = min((rest.index(mark) for mark in "/?" if mark in rest), default=len(rest))
        authority, path = rest[:cut], rest[cut:]
        host, port = self._named(head, authority, 80, method)
        whole = Head((method, path if path.startswith("/") else f"/{path}", "HTTP/1.1"), head.fields)
        if (host, port) == (HANDRAIL, 80):
            return await self._to_handrail(program, whole)
        return await self._forward(program, whole, Verdict(host, port, method))

    def _named(self, head: Head, authority: str, default: int | None, method: str) -> tuple[str, int]:
        """The host that is asked for, by name, and the same one wherever the head names it."""
        try:
            host, port = host_and_port(authority, default)
        except BadName as error:
            self.site.refuse(Verdict(authority[:253], 0, method, why=str(error)))
            raise Refused(403, f"Handrail held this back. {error}") from None
        for value in head.all("host"):
            try:
                same = host_and_port(value, port if method == "CONNECT" else 80) == (host, port)
            except BadName:
                same = False
            if not same:
                why = "the Host field names another host than the address"
                self._hold_back(Verdict(host, port, method), why, 400)
        return host, port

    def _hold_back(self, verdict: Verdict, why: str, status: int = 403):
        verdict.why = why
        self.site.refuse(verdict)
        way_out = self.site.way_out(verdict.host, verdict.port) if status == 403 else ""
        raise Refused(status, f"Handrail held this back: {verdict.host}:{verdict.port}: {why}. {way_out}".strip())

    async def _way(self, verdict: Verdict) -> Side:
        """A connection to the host, if it is allowed: its name looked up once, and the address kept."""
        if why := await self.site.judge(verdict.host, verdict.port):
            self._hold_back(verdict, why)
        try:
            addresses = await pinned(verdict.host, self.resolve, self.networks)
        except Unresolved as error:
            self._hold_back(verdict, str(error), 502)
        try:
            return await self._connected(addresses[:TRIES], verdict.port, "the host does not answer")
        except Refused as refused:
            self._hold_back(verdict, str(refused), 502)

    async def _connected(self, addresses, port: int, otherwise: str) -> Side:
        for address in addresses:
            with contextlib.suppress(OSError, TimeoutError):
                return Side(*await asyncio.wait_for(asyncio.open_connection(address, port, limit=BUFFER), CONNECT_S))
        raise Refused(502, otherwise)

    async def _admit(self, verdict: Verdict):
        if why := await self.site.admit(verdict):
            self._hold_back(verdict, why)
        verdict.allowed = True

    async def _forward(self, program: Side, head: Head, verdict: Verdict, host: Side | None = None):
        host = host or await self._way(verdict)
        named = verdict.host if verdict.port == 80 else f"{verdict.host}:{verdict.port}"
        try:
            await self._admit(verdict)
            request = head.with_fields(("host", named), without=frozenset({"host"}))
            await exchange(program, host, Flow(verdict), head, request)
        except BadHead as error:
            raise Refused(502, str(error)) from None
        finally:
            if verdict.allowed:
                self.site.over(verdict)
            await host.close()

    async def _tunnel(self, program: Side, name: str, port: int):
        verdict = Verdict(name, port, "CONNECT")
        host = await self._way(verdict)
        try:
            program.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            async with asyncio.timeout(HEAD_S):
                first = await program.reader.readexactly(1)
            await (self._tls if first == b"\x16" else self._plain_in_tunnel)(program, verdict, host, first)
        except GONE:
            if not verdict.allowed and not verdict.why:
                verdict.why = "it ended before its host could be compared"
                self.site.refuse(verdict)
            raise
        finally:
            await host.close()

    async def _tls(self, program: Side, verdict: Verdict, host: Side, first: bytes):
        try:
            async with asyncio.timeout(HEAD_S):
                hello = await self._checked_hello(program, verdict, first)
            await self._admit(verdict)
        except (BadHello, Refused) as error:
            if isinstance(error, BadHello):
                verdict.why = str(error)
                self.site.refuse(verdict)
            program.writer.write(ALERT)  # a program in the middle of a TLS hello would not read words
            await _linger(program)
            return
        try:
            await tunnel(program, host, Flow(verdict), hello)
        finally:
            self.site.over(verdict)

    async def _checked_hello(self, program: Side, verdict: Verdict, first: bytes) -> bytes:
        hello, named = await read_hello(program.reader, first)
        try:
            same = host_name(named) == verdict.host
        except BadName:
            same = False
        if not same:
            raise BadHello(f"the TLS hello names another host, {named[:100]!r}")
        return hello

    async def _plain_in_tunnel(self, program: Side, verdict: Verdict, host: Side, first: bytes):
        """Plain HTTP in a tunnel is one request like any other; nothing else can be compared, so it does not pass."""
        if not first.isalpha():
            self._hold_back(verdict, "it is neither TLS nor HTTP, so its host cannot be compared")
        head = await self._head(program, first)
        method, target, _ = head.first
        if not target.startswith("/"):
            raise BadHead("The request in the tunnel makes no sense.")
        self._named(head, f"{verdict.host}:{verdict.port}", None, method)
        verdict.method = method
        await self._forward(program, Head((method, target, "HTTP/1.1"), head.fields), verdict, host)


async def say(program: Side, status: int, words: str):
    body = (words + "\n").encode()
    fields = f"Content-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\nConnection: close"
    program.writer.write(f"HTTP/1.1 {status} {WORDS[status]}\r\n{fields}\r\n\r\n".encode() + body)
    await _linger(program)


async def _linger(program: Side):
    """Let what was said arrive: a close with unread bytes would throw it away."""
    with contextlib.suppress(*GONE):
        await program.writer.drain()
        program.end()
        async with asyncio.timeout(LINGER_S):
            while await program.reader.read(BUFFER):
                pass

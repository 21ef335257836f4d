"""The egress proxy of one Run: CONNECT and plain HTTP, by host name, to the hosts that the Run's rules allow."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial

from dashboard.net.upstream import Upstream

from . import by_proxy, internal_api
from .access_rules import AccessRules
from .addresses import Network, Resolve, Unresolved, resolve_by_system, resolve_public
from .answers import Refused, linger, send_error
from .attempts import Attempt, Block, BlockCode
from .http_head import BadHead, RequestHead, basic, read_request
from .listeners import NoListeners
from .names import HANDRAIL, BadName, host_and_port, host_name, split_authority
from .opened import Opened
from .own_loopback import target_of
from .passes import Passes
from .relay import DISCONNECTED, HOLD_TIMEOUT, Flow, Peer, exchange, tunnel
from .request_gate import Leashes, Opening, RequestGate
from .tls_sni import UNRECOGNIZED_NAME_ALERT, BadHello, read_hello

logger = logging.getLogger("handrail.egress")
HEAD_TIMEOUT = 20.0
CONNECT_TIMEOUT = 15.0
MAX_ADDRESSES = 4  # of one name
MAX_CONNECTIONS = 256  # of one Run at the same time
READ_BUFFER_BYTES = 256 * 1024
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
Back = Callable[[tuple[str, ...], int], Awaitable[Peer]]


class Proxy:
    """The proxy of one Run: `serve` takes the listening sockets, `close` closes them and every connection."""

    def __init__(
        self,
        rules: AccessRules,
        *,
        resolve: Resolve = resolve_by_system,
        networks: Iterable[Network] = (),
        web: tuple[str, int] | None = None,
        workspace: str = "",
        passes: Passes | None = None,
        back: Back | None = None,
        own_names: Iterable[str] = (),
        upstream: Upstream = Upstream(),  # noqa: B008 - immutable
        leashes: Leashes | None = None,
    ):
        """`back` connects to the workspace's own loopback, which `own_names` stand for as well.

        `upstream`: a company's proxy, by which hosts are reached. `leashes`: credentials that are put into requests.
        """
        self.passes = passes or Passes()
        self.rules, self.resolve, self.networks = rules, resolve, tuple(networks)
        self.web, self.workspace, self.upstream, self.leashes = web, workspace, upstream, leashes
        self.back, self.own_names = back, frozenset(name.lower() for name in own_names)
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task] = set()

    async def serve(self, outward: socket.socket, inward: socket.socket | None = None):
        """Accept proxy clients on `outward` and requests to Handrail itself on `inward`."""
        for listener, handle in ((outward, self._outward), (inward, self._inward)):
            if listener is not None:
                handler = self._handler(handle)
                self._servers.append(await asyncio.start_server(handler, sock=listener, limit=READ_BUFFER_BYTES))

    async def close(self):
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _handler(self, handle: Callable):
        async def guarded(reader, writer):
            task = asyncio.current_task()
            self._tasks.add(task)
            program = Peer(reader, writer)
            try:
                await self._handle(handle, program)
            except DISCONNECTED:
                pass  # the client has disconnected
            except Exception:
                logger.exception("a workspace's connection failed")
            finally:
                self._tasks.discard(task)
                writer.close()

        return guarded

    async def _handle(self, handle, program: Peer):
        """Handle a connection, or send an error response."""
        try:
            if len(self._tasks) > MAX_CONNECTIONS:
                raise Refused(503, f"A workspace has at most {MAX_CONNECTIONS} connections at the same time.")
            await handle(program)
        except Refused as refused:
            await send_error(program, refused.status, str(refused))
        except BadHead as error:
            self.rules.log_blocked(Attempt("", 0, "", block=Block(BlockCode.INVALID_REQUEST, str(error))))
            await send_error(program, 400, str(error))

    # Handrail itself

    async def _inward(self, program: Peer):
        await self._to_handrail(program, await self._inner_head(program))

    async def _to_handrail(self, program: Peer, head: RequestHead):
        if self.web is None:
            raise Refused(503, "Handrail is not reached from here.")
        try:
            request = internal_api.request_for_web(head, self.workspace)
        except internal_api.NotServed as error:
            raise Refused(error.status, str(error)) from None
        host = await self._open([self.web[0]], self.web[1], "Handrail does not answer.")
        try:
            flow = Flow(Attempt(HANDRAIL, 80, head.method), HOLD_TIMEOUT)
            # A hook waits for hours: that its program has gone away ends what it asked.
            await exchange(program, host, flow, head.connection, request, until_closed=True)
        except BadHead as error:
            raise ConnectionResetError(str(error)) from None  # as where it ends within its answer
        finally:
            await host.close()

    # Egress

    async def _head(self, program: Peer, before: bytes = b"") -> RequestHead:
        try:
            async with asyncio.timeout(HEAD_TIMEOUT):
                return await read_request(program.reader, before)
        except TimeoutError:
            raise Refused(408, "The request did not come in time.") from None

    async def _inner_head(self, program: Peer, before: bytes = b"") -> RequestHead:
        head = await self._head(program, before)
        if head.method == "CONNECT":
            raise BadHead("CONNECT is not possible here.")
        return head

    async def _outward(self, program: Peer):
        head = await self._head(program)
        if head.method == "CONNECT":
            if own := self._own(head.target, 443):
                return await self._tunnel_back(program, await self._connect_back(head, head.target, *own))
            host, port = self._requested_host(head, head.target, None)
            if (host, port) == (HANDRAIL, 80):
                program.writer.write(ESTABLISHED)
                return await self._inward(program)
            return await self._tunnel(program, self._attempt(head, host, port, head.method))
        authority, head = self._split(head)
        if own := self._own(authority, 80):
            inside = await self._connect_back(head, authority, *own)
            return await self._forward_back(program, head, authority, inside)
        host, port = self._requested_host(head, authority, 80)
        if (host, port) == (HANDRAIL, 80):
            return await self._to_handrail(program, head)
        return await self._forward(program, head, self._attempt(head, host, port, head.method))

    def _split(self, head: RequestHead) -> tuple[str, RequestHead]:
        """Return (host with its port, the request with the path alone) of a request for a whole address.

        A user name and password in the address become an Authorization field, unless there is one.
        """
        scheme, found, rest = head.target.partition("://")
        if not found or scheme.lower() != "http" or "#" in head.target:
            raise BadHead("This is a proxy: it takes CONNECT, and http:// addresses as a whole.")
        cut = min((rest.index(mark) for mark in "/?" if mark in rest), default=len(rest))
        path = rest[cut:]
        with self._named(head, rest[:cut]):
            user, authority = split_authority(rest[:cut])
        more = [("authorization", basic(user))] if user and not head.all("authorization") else []
        whole = path if path.startswith("/") else f"/{path}"
        return authority, replace(head, target=whole, fields=[*head.fields, *more])

    # The workspace itself

    def _own(self, authority: str, default: int) -> tuple[tuple[str, ...], int] | None:
        """Return (addresses, port) of the workspace's own loopback, None for another host."""
        return target_of(authority, default, self.own_names) if self.back is not None else None

    async def _connect_back(self, head: RequestHead, authority: str, addresses: tuple[str, ...], port: int) -> Peer:
        """Connect to the workspace's own loopback. Only what nothing answers is logged."""
        try:
            return await self.back(addresses, port)
        except (NoListeners, OSError, TimeoutError):
            block = Block(
                BlockCode.UNREACHABLE, f"nothing answers there on the workspace's own loopback ({addresses[0]})"
            )
            self.rules.log_blocked(Attempt(authority[:253], 0, head.method, block=block))
            raise Refused(502, f"Blocked by Handrail: {authority}: {block.message}.") from None

    async def _tunnel_back(self, program: Peer, inside: Peer):
        try:
            program.writer.write(ESTABLISHED)
            await tunnel(program, inside, Flow(Attempt("localhost", 0, "CONNECT")), b"")
        finally:
            await inside.close()

    async def _forward_back(self, program: Peer, head: RequestHead, authority: str, inside: Peer):
        try:
            await self._exchange(program, inside, head, Flow(Attempt("localhost", 0, head.method)), authority)
        finally:
            await inside.close()

    # Other hosts

    def _attempt(self, head: RequestHead, host: str, port: int, method: str) -> Attempt:
        return Attempt(host, port, method, token=self.passes.shown(head.all("proxy-authorization"), host, port))

    @contextlib.contextmanager
    def _named(self, head: RequestHead, authority: str):
        """Block a request whose address has a bad name."""
        try:
            yield
        except BadName as error:
            block = Block(BlockCode.INVALID_NAME, str(error))
            self.rules.log_blocked(Attempt(authority.rpartition("@")[2][:253], 0, head.method, block=block))
            raise Refused(403, f"Blocked by Handrail. {error}") from None

    def _requested_host(self, head: RequestHead, authority: str, default: int | None) -> tuple[str, int]:
        """Return the requested (host, port). Block the request if a Host field names another one."""
        method = head.method
        with self._named(head, authority):
            host, port = host_and_port(authority, default)
        for value in head.all("host"):
            try:
                named = split_authority(value)[1]  # Python's urllib repeats the user name there
                same = host_and_port(named, port if method == "CONNECT" else 80) == (host, port)
            except BadName:
                same = False
            if not same:
                block = Block(BlockCode.HOST_MISMATCH, "the Host field names another host than the address")
                self._block(Attempt(host, port, method), block, 400)
        return host, port

    def _block(self, attempt: Attempt, block: Block, status: int = 403):
        attempt.block = block
        self.rules.log_blocked(attempt)
        if block.code == BlockCode.UNRESOLVED:
            raise Refused(status, f"Can't resolve {attempt.host}.")
        if status == 403 and block.code == BlockCode.NOT_LISTED and self.passes.asks(attempt.host, attempt.port):
            status = 407  # some programs show a pass only when they are asked for it
        advice = f" {self.rules.how_to_allow(attempt.host, attempt.port)}" if status in (403, 407) else ""
        raise Refused(status, f"Blocked by Handrail: {attempt.host}:{attempt.port}: {block.message}.{advice}")

    async def _connect(self, attempt: Attempt, *, plain: bool = False) -> Peer:
        """Connect to the host if it is allowed, resolving its name only once (no DNS rebinding).

        `plain`: for one plain request, which a company's proxy takes with the whole address.
        """
        await self._refuse_unlisted(attempt)
        try:
            addresses = await resolve_public(attempt.host, self.resolve, self.networks)
        except Unresolved as error:
            # A name that is not known here may be known to the company's proxy; a private one is refused as ever.
            if error.block.code != BlockCode.UNRESOLVED or not self.upstream.on_the_way_to(attempt.host, attempt.port):
                self._block(attempt, error.block, 502)
            addresses = []
        try:
            if proxy := self.upstream.on_the_way_to(attempt.host, attempt.port, addresses):
                return await by_proxy.reached(proxy, self.upstream, attempt, plain=plain)
            return await self._open(addresses[:MAX_ADDRESSES], attempt.port, "the host does not answer")
        except Refused as refused:
            self._block(attempt, Block(BlockCode.UNREACHABLE, str(refused)), 502)

    async def _refuse_unlisted(self, attempt: Attempt):
        if not (attempt.token or attempt.allowed) and (block := await self.rules.check(attempt.host, attempt.port)):
            self._block(attempt, block)

    async def _open(self, addresses, port: int, otherwise: str) -> Peer:
        for address in addresses:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_TIMEOUT):
                    return Peer(*await asyncio.open_connection(address, port, limit=READ_BUFFER_BYTES))
        raise Refused(502, otherwise)

    async def _admit(self, attempt: Attempt):
        if attempt.token and not self.passes.opens(attempt.token, attempt.host, attempt.port):
            attempt.token = ""  # its program has ended meanwhile
        if block := await self.rules.admit(attempt):
            self._block(attempt, block)
        if attempt.token:
            self.passes.began(attempt.token, asyncio.current_task())
        attempt.allowed = True

    async def _opening(self, attempt: Attempt) -> Opening:
        """Return why TLS to the host is opened, or its requests are checked. Block one that cannot be opened here."""
        try:
            return await self.leashes.at(attempt.host, attempt.port) if self.leashes is not None else Opening()
        except Refused as refused:
            self._block(attempt, Block(BlockCode.NOT_COVERED, str(refused)))

    def _gate(self, opening: Opening, attempt: Attempt) -> RequestGate:
        return RequestGate(self.leashes, opening, attempt, self.rules.log_blocked)

    async def _forward(self, program: Peer, head: RequestHead, attempt: Attempt, host: Peer | None = None):
        rules, body = Opening(scopes=(await self._opening(attempt)).scopes), None  # no credential in plain HTTP
        if rules:
            await self._refuse_unlisted(attempt)
            head, body = await self._gate(rules, attempt).passed(head, program)
        host = host or await self._connect(attempt, plain=not head.asks_for_websocket)
        named = attempt.host if attempt.port == 80 else f"{attempt.host}:{attempt.port}"
        try:
            await self._admit(attempt)
            await self._exchange(program, host, head, Flow(attempt), named, body)
        finally:
            if attempt.allowed:
                self.rules.log_ended(attempt)
            await host.close()

    async def _exchange(
        self, program: Peer, host: Peer, head: RequestHead, flow: Flow, named: str, body: bytes | None = None
    ):
        send = head.forwarded_for_websocket if head.asks_for_websocket else head.forwarded
        more = []
        if host.proxy is not None:
            head = replace(head, target=f"http://{named}{head.target}")
            send = head.forwarded
            more = [("proxy-authorization", host.proxy.authorization)] if host.proxy.user else []
        without = {"host"} if body is None else {"host", "expect"}
        request = send(("host", named), *more, without=frozenset(without))
        try:
            await exchange(program, host, flow, head.connection, request, body=body)
        except BadHead as error:
            raise Refused(502, f"{named} gave no answer that can be passed on. {error}") from None

    async def _tunnel(self, program: Peer, attempt: Attempt):
        if opening := await self._opening(attempt):
            # The host is connected to once a request may be sent, which a person may have to allow.
            await self._refuse_unlisted(attempt)
        host = None if opening else await self._connect(attempt)
        try:
            program.writer.write(ESTABLISHED)
            async with asyncio.timeout(HEAD_TIMEOUT):
                first = await program.reader.readexactly(1)
            if first != b"\x16":
                await self._plain_in_tunnel(program, attempt, host, first)
            elif hello := await self._admitted_hello(program, attempt, first):
                await self._tls(program, attempt, host, hello, opening)
        except DISCONNECTED:
            if not attempt.allowed and not attempt.block:
                attempt.block = Block(BlockCode.UNVERIFIABLE, "it ended before its host could be compared")
                self.rules.log_blocked(attempt)
            raise
        finally:
            if host is not None:
                await host.close()

    async def _tls(self, program: Peer, attempt: Attempt, host: Peer | None, hello: bytes, opening: Opening):
        try:
            if host is None:
                await Opened(self._gate(opening, attempt), partial(self._connect, attempt)).serve(program, hello)
            else:
                await tunnel(program, host, Flow(attempt), hello)
        finally:
            self.rules.log_ended(attempt)

    async def _admitted_hello(self, program: Peer, attempt: Attempt, first: bytes) -> bytes | None:
        """Return the hello of a connection that is admitted; None for one that was told that it is not."""
        try:
            async with asyncio.timeout(HEAD_TIMEOUT):
                hello = await self._checked_hello(program, attempt, first)
            await self._admit(attempt)
        except (BadHello, Refused) as error:
            if isinstance(error, BadHello):
                attempt.block = error.block
                self.rules.log_blocked(attempt)
            program.writer.write(UNRECOGNIZED_NAME_ALERT)  # a client in a TLS handshake would not parse an HTTP error
            await linger(program)
            return None
        return hello

    async def _checked_hello(self, program: Peer, attempt: Attempt, first: bytes) -> bytes:
        hello, named = await read_hello(program.reader, first)
        try:
            same = host_name(named) == attempt.host
        except BadName:
            same = False
        if not same:
            raise BadHello(f"the TLS hello names another host, {named[:100]!r}", BlockCode.HOST_MISMATCH)
        return hello

    async def _plain_in_tunnel(self, program: Peer, attempt: Attempt, host: Peer | None, first: bytes):
        """Forward one plain HTTP request sent in a tunnel; block other protocols, whose host cannot be verified."""
        if not first.isalpha():
            message = "it is neither TLS nor HTTP, so its host cannot be compared"
            self._block(attempt, Block(BlockCode.UNVERIFIABLE, message))
        head = await self._inner_head(program, first)
        if not head.target.startswith("/"):
            raise BadHead("Invalid request in the tunnel.")
        self._requested_host(head, f"{attempt.host}:{attempt.port}", None)
        attempt.method = head.method
        await self._forward(program, head, attempt, host)

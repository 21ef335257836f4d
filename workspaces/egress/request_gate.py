"""What a request to an opened host may do: pass by the environment's rules, and use a credential within its leash.

Whatever is beyond that is held open for a person. One card is enough: a use of a credential that a person approves is
not asked about a second time for its method.
"""

import asyncio
import hashlib
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import h11

from .answers import Refused
from .attempts import Attempt, Block, BlockCode
from .authority import Authority
from .http_head import BadHead, RequestHead
from .leash import IN_PARTS, OVERRIDES, Leashed, Scope
from .reads import is_graphql, only_reads, writes
from .relay import READ_BYTES, Peer

BODY_TIMEOUT = 60.0
HOLD_TIMEOUT = 25 * 3600.0
MAX_HELD_BODY = 8 * 1024**2  # bytes of a request that a person is asked about


class Scrubber(Protocol):
    """Takes the real values out of a stream."""

    def feed(self, data: bytes) -> bytes: ...

    def flush(self) -> bytes: ...


@dataclass(frozen=True)
class Use:
    """One request to an opened host; `query` is what follows the ?. Without a credential its method is asked about."""

    credential: Leashed | None
    host: str
    port: int
    method: str
    path: str
    query: str = ""
    writes: str = ""  # of GraphQL: what it may change
    body_sha256: str = ""
    body_bytes: int = 0


@dataclass(frozen=True)
class Opening:
    """Why TLS to a host is opened: credentials that name it, and rules of the environment."""

    credentials: Sequence[Leashed] = ()
    scopes: Sequence[Scope] = ()

    def __bool__(self):
        return bool(self.credentials or self.scopes)


def is_gone(use: Use) -> str:
    """Say that the credential was deleted while a person was asked, or is not for the host any more."""
    return f"The credential {use.credential.name} is not set for {use.host} any more, so it was not put in."


class Leashes(Protocol):
    """What the runner knows of the credentials and rules of one Run."""

    authority: Authority
    tls: Callable[[], ssl.SSLContext]  # for the connection to the host itself

    async def at(self, host: str, port: int) -> Opening:
        """Return the credentials and rules that name the host; none where TLS is not opened. Raise Refused."""

    async def used(self, use: Use) -> None:
        """Record a use within the leash, before it is sent."""

    async def ask(self, use: Use) -> str:
        """Hold a use beyond the leash or the rules for a person. Return "" once it may be sent, else why not."""

    def answered(self, use: Use) -> str | None:
        """Return what `ask` has returned before for the method of such a request; None if nobody has answered."""

    def scrubber(self, credentials: Sequence[Leashed]) -> Scrubber: ...


@dataclass
class RequestGate:
    """Checks the request of one connection to an opened host."""

    leashes: Leashes
    opening: Opening
    attempt: Attempt
    log_blocked: Callable[[Attempt], None]

    def blocked(self, code: BlockCode, words: str):
        block = Block(code, words)
        self.log_blocked(Attempt(self.attempt.host, self.attempt.port, self.attempt.method, block=block))

    async def look_again(self):
        """Take what names the host by now, as the tunnel may be old. Raise Refused.

        Where no rule does any more, those of the tunnel still hold: its host may not be allowed at all by now.
        """
        before, now = self.opening, await self.leashes.at(self.attempt.host, self.attempt.port)
        self.opening = replace(now, scopes=now.scopes or before.scopes)

    async def passed(self, head: RequestHead, program: Peer) -> tuple[RequestHead, bytes | None]:
        """Return the request as it may be sent, and its body if that was read. Raise BadHead, Refused."""
        use = self._read(head)
        body = await _whole_body(head, program) if is_graphql(head) and self._tells_reads else None
        reads = only_reads(head, body)
        if is_graphql(head) and not reads:
            use = replace(use, writes=writes(head, body))
        if self._is_within(use, reads) and not self._may(use, reads):
            body = await self._asked(replace(use, credential=None), head, body, program)
            use = await self._as_it_is_now(use) if use.credential else use
        if use.credential is None:
            return head, body
        if self._is_within(use, reads):
            await self.leashes.used(use)
        else:
            body = await self._asked(use, head, body, program)
            use = await self._as_it_is_now(use)
        fields = [
            (name, use.credential.put_into(value) or value if name == use.credential.header else value)
            for name, value in head.fields
            if name not in IN_PARTS
        ]
        return replace(head, fields=fields), body

    def _is_within(self, use: Use, reads: bool) -> bool:
        """Return whether the leash of its credential covers the request; there is none without a credential."""
        if use.credential is None:
            return True
        return use.credential.at(use.host, use.port).covers(use.method, use.path, reads=reads)

    @property
    def _tells_reads(self) -> bool:
        """Whether it counts what a request's body says; a person is told what it would change as well."""
        leashes = [one.at(self.attempt.host, self.attempt.port) for one in self.opening.credentials]
        return any("*" not in scope.methods for scope in (*self.opening.scopes, *leashes))

    def _may(self, use: Use, reads: bool) -> bool:
        """Return whether the environment's rules let the request pass; where there are none, all does."""
        scopes = self.opening.scopes
        return not scopes or any(scope.covers(use.method, use.path, reads=reads) for scope in scopes)

    def _read(self, head: RequestHead) -> Use:
        """Check the head; return the request, and the credential that it would use. Raise BadHead, Refused."""
        if head.all("upgrade"):
            raise Refused(403, "Blocked by Handrail. A connection to an opened host can't become another one.")
        shown = [one for one in self.opening.credentials if any(map(one.put_into, head.all(one.header)))]
        if len(shown) > 1 or (shown and len(head.all(shown[0].header)) > 1):
            raise BadHead("The request shows more than one credential.")
        if shown or self.opening.scopes:
            if found := OVERRIDES & {name for name, _ in head.fields}:
                raise BadHead(f"What is checked by method and path has no {min(found)} field, which changes them.")
            if "#" in head.target:
                raise BadHead("A path has no #.")
        path, _, query = head.target.partition("?")
        credential = shown[0] if shown else None
        return Use(credential, self.attempt.host, self.attempt.port, head.method, path, query)

    async def _asked(self, use: Use, head: RequestHead, body: bytes | None, program: Peer) -> bytes | None:
        """Hold the request for a person; return its body if that was read. Raise Refused."""
        why = self.leashes.answered(use) if use.credential is None else None
        if why is None:
            body = await _whole_body(head, program) if body is None else body
            use = replace(use, body_sha256=hashlib.sha256(body).hexdigest(), body_bytes=len(body))
            why = await self._held(use, program)
        if why:
            if use.credential is None:
                self.blocked(BlockCode.NOT_COVERED, f"{use.method} is not covered by the environment's rules")
            raise Refused(403, f"Blocked by Handrail. {why}")
        return body

    async def _as_it_is_now(self, use: Use) -> Use:
        """Return the use with the newest value and leash: an answer may take a day. Raise Refused if it is gone."""
        self.opening = await self.leashes.at(use.host, use.port)
        found = [one for one in self.opening.credentials if one.id == use.credential.id]
        if not found:
            raise Refused(403, f"Blocked by Handrail. {is_gone(use)}")
        return replace(use, credential=replace(use.credential, value=found[0].value, hosts=found[0].hosts))

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


async def body_parts(source: h11.Connection, reader: asyncio.StreamReader, headers=()):
    """Yield the data of the message that `source` is reading, with these headers."""
    try:
        while True:
            event = source.next_event()
            if event is h11.NEED_DATA:
                lengths = [value for name, value in headers if name == b"content-length"]
                if lengths:
                    async for data in _exactly(int(lengths[0]), reader):
                        yield data  # h11 would copy each byte three times
                    return
                source.receive_data(await reader.read(READ_BYTES))
            elif isinstance(event, h11.Data):
                yield bytes(event.data)
            else:
                return
    except h11.RemoteProtocolError as error:
        raise ConnectionResetError("invalid or incomplete body") from error


async def _exactly(size: int, reader: asyncio.StreamReader):
    while size:
        data = await reader.read(min(size, READ_BYTES))
        if not data:
            raise ConnectionResetError("incomplete body")
        size -= len(data)
        yield data


async def _whole_body(head: RequestHead, program: Peer) -> bytes:
    """Return the body of a request that a person is asked about. Raise Refused for a long one."""
    if head.all("expect"):
        program.writer.write(head.connection.send(h11.InformationalResponse(status_code=100, headers=[])))
    found = bytearray()
    async with asyncio.timeout(BODY_TIMEOUT):
        async for data in body_parts(head.connection, program.reader):
            found += data
            if len(found) > MAX_HELD_BODY:
                raise Refused(413, f"A person is asked about at most {MAX_HELD_BODY // 1024**2} MB.")
    return bytes(found)

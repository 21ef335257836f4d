"""Read HTTP/1 message heads: h11 parses them, and the stricter rules here rule out request smuggling."""

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass

import h11

MAX_HEAD_BYTES = 32 * 1024
MAX_FIELDS = 100
# h11 also accepts bare LF, folded lines and control characters in values: implementations disagree on each of them.
STRICT_LINES = re.compile(rb"(?:[!-~\x80-\xff][\t -~\x80-\xff]*\r\n)+\r\n")
HOST_FIELD = re.compile(rb"\r\nhost:", re.IGNORECASE)
# h11 merges repeated and comma-separated lengths that agree.
LENGTH_FIELD = re.compile(rb"\r\ncontent-length:([^\r]*)", re.IGNORECASE)
LENGTH = re.compile(rb"[\t ]*[0-9]{1,18}[\t ]*")
# Hop-by-hop headers (RFC 9110 §7.6.1).
HOP_BY_HOP = frozenset(
    (
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "proxy-authenticate",
        "te",
        "trailer",
        "upgrade",
    )
)

Fields = list[tuple[str, str]]


class BadHead(Exception):
    """The message is malformed or ambiguous; the text can be shown."""


@dataclass
class RequestHead:
    """The head of a program's request."""

    connection: h11.Connection  # reads the request's body, frames the response
    method: str
    target: str
    fields: Fields  # names in lower case

    def all(self, name: str) -> list[str]:
        return [value for known, value in self.fields if known == name]

    def forwarded(self, *extra: tuple[str, str], without: frozenset[str] = frozenset()) -> h11.Request:
        """Return the request to send on: hop-by-hop headers and `without` dropped, `extra` added."""
        fields = end_to_end(self.fields, *extra, without=without)
        return h11.Request(method=self.method, target=self.target, headers=_encoded(fields))


def forwarded_response(response: h11.Response) -> h11.Response:
    """Return the response to send on, without hop-by-hop headers."""
    headers = _encoded(end_to_end(_decoded(response.headers)))
    return h11.Response(status_code=response.status_code, reason=response.reason, headers=headers)


def end_to_end(fields: Fields, *extra: tuple[str, str], without: frozenset[str] = frozenset()) -> Fields:
    """Drop hop-by-hop headers and `without`; add `extra` and `Connection: close`."""
    listed = {word.strip().lower() for name, value in fields if name == "connection" for word in value.split(",")}
    # A name listed in Connection must not remove the framing headers: the proxy is responsible for framing.
    dropped = (HOP_BY_HOP | without | listed) - {"content-length", "transfer-encoding"}
    return [*((name, value) for name, value in fields if name not in dropped), *extra, ("connection", "close")]


def _decoded(headers: Iterable[tuple[bytes, bytes]]) -> Fields:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]


def _encoded(fields: Fields) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]


async def read_request(reader: asyncio.StreamReader, before: bytes = b"") -> RequestHead:
    """Read the head of a request; `before` holds bytes already read.

    Raise BadHead for an invalid head, IncompleteReadError when the program has disconnected.
    """
    data = await _read_strict(reader, before)
    connection = h11.Connection(h11.SERVER, MAX_HEAD_BYTES)
    request = _parsed(connection, _with_host(data))
    if request.http_version not in (b"1.1", b"1.0"):
        raise BadHead("Only HTTP/1.1 is supported.")
    fields = _decoded(request.headers)
    names = [name for name, _ in fields]
    if request.http_version == b"1.0" and "transfer-encoding" in names:
        raise BadHead("HTTP/1.0 has no chunked bodies.")
    method = request.method.decode()
    if method != "CONNECT" and "host" not in names:
        raise BadHead("There must be exactly one Host field.")
    return RequestHead(connection, method, request.target.decode(), fields)


async def read_response(reader: asyncio.StreamReader, connection: h11.Connection):
    """Read the head of the next response, or informational response, on a connection that a request was sent on."""
    response = _parsed(connection, await _read_strict(reader))
    if not response.http_version.startswith(b"1.") or response.status_code >= 600:
        raise BadHead("Invalid response.")
    return response


async def _read_strict(reader: asyncio.StreamReader, before: bytes = b"") -> bytes:
    """Return the next head's bytes, its size and lines checked."""
    try:
        data = before + await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise BadHead("Message head too long.") from None
    if len(data) > MAX_HEAD_BYTES:
        raise BadHead("Message head too long.")
    if not STRICT_LINES.fullmatch(data):
        raise BadHead("Invalid message head.")
    if data.count(b"\r\n") - 2 > MAX_FIELDS:
        raise BadHead("There are too many fields in the head.")
    lengths = LENGTH_FIELD.findall(data)
    if len(lengths) > 1 or not all(LENGTH.fullmatch(length) for length in lengths):
        raise BadHead("Invalid body length.")
    return data


def _with_host(data: bytes) -> bytes:
    """Add a Host field to a CONNECT without one: older clients send none, and h11 requires it."""
    if not data.startswith(b"CONNECT ") or HOST_FIELD.search(data):
        return data
    return data[:-2] + b"Host: " + data.split(b" ", 2)[1] + b"\r\n\r\n"


def _parsed(connection: h11.Connection, data: bytes):
    connection.receive_data(data)
    try:
        head = connection.next_event()
    except h11.RemoteProtocolError:
        # Without h11's message: it quotes the line, which may hold a secret.
        raise BadHead("Invalid message head.") from None
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in head.headers}:
        raise BadHead("Conflicting body lengths.")
    return head

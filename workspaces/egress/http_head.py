"""Read HTTP/1 message heads: h11 parses them, and the stricter rules here rule out request smuggling.

A request is passed on only if every implementation reads it alike; raw bytes of its address are percent-encoded. An
answer is the only one of its connection and is written anew, so that its lines may end with LF alone, and its length
may be named twice.
"""

import asyncio
import re
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

import h11

MAX_HEAD_BYTES = 32 * 1024
MAX_FIELDS = 100
# h11 also accepts bare LF, folded lines and control characters in values: implementations disagree on each of them.
STRICT_LINES = re.compile(rb"(?:[!-~\x80-\xff][\t -~\x80-\xff]*\r\n)+\r\n")
_FIRST_LINE = re.compile(rb"[!-~]+ [!-~]+ HTTP/[0-9]\.[0-9]\r\n|HTTP/[0-9]\.[0-9] [0-9]{3}[ \r]")
FIELD = re.compile(rb"\A[!#-'*+.^_`|~0-9A-Za-z-]+:")
CONTROL = re.compile(rb"[^\t -~\x80-\xff\r\n]|\r(?!\n)")
NOT_ASCII = re.compile(rb"[\x80-\xff]")
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

WEBSOCKET = "websocket"

Fields = list[tuple[str, str]]
SWITCH: Fields = [("connection", "Upgrade"), ("upgrade", WEBSOCKET)]


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

    @property
    def asks_for_websocket(self) -> bool:
        """Whether the connection is to become a WebSocket. No other protocol is switched to, HTTP/2 least of all."""
        upgrade = [value.strip().lower() for value in self.all("upgrade")]
        has_body = self.all("content-length") or self.all("transfer-encoding")
        return upgrade == [WEBSOCKET] and "upgrade" in _listed(self.fields) and self.method == "GET" and not has_body

    def forwarded(self, *extra: tuple[str, str], without: frozenset[str] = frozenset()) -> h11.Request:
        """Return the request to send on: hop-by-hop headers and `without` dropped, `extra` added."""
        return self._request(end_to_end(self.fields, *extra, without=without))

    def forwarded_for_websocket(self, *extra: tuple[str, str], without: frozenset[str] = frozenset()) -> h11.Request:
        """Return the request that also asks the host for a WebSocket."""
        return self._request(end_to_end(self.fields, *extra, without=without, connection=SWITCH))

    def _request(self, fields: Fields) -> h11.Request:
        return h11.Request(method=self.method, target=self.target, headers=_encoded(fields))


def basic(user: str) -> str:
    """Return the Authorization field for the `user:password` of a URL."""
    name, _, password = user.partition(":")
    return "Basic " + b64encode(unquote_to_bytes(name) + b":" + unquote_to_bytes(password)).decode()


def forwarded_response(response: h11.Response) -> h11.Response:
    """Return the response to send on, without hop-by-hop headers."""
    headers = _encoded(end_to_end(_decoded(response.headers)))
    return h11.Response(status_code=response.status_code, reason=response.reason, headers=headers)


def switched(response: h11.InformationalResponse) -> h11.InformationalResponse:
    """Return the answer 101 to send on. Raise BadHead for another protocol than WebSocket."""
    fields = _decoded(response.headers)
    if [value.strip().lower() for name, value in fields if name == "upgrade"] != [WEBSOCKET]:
        raise BadHead("The host switched to another protocol than WebSocket.")
    headers = _encoded(end_to_end(fields, connection=SWITCH))
    return h11.InformationalResponse(status_code=101, reason=response.reason, headers=headers)


def end_to_end(
    fields: Fields,
    *extra: tuple[str, str],
    without: frozenset[str] = frozenset(),
    connection: Fields = [("connection", "close")],  # noqa: B006 - read only
) -> Fields:
    """Drop hop-by-hop headers and `without`; add `extra` and what holds for the connection."""
    # A name listed in Connection must not remove the framing headers: the proxy is responsible for framing.
    dropped = (HOP_BY_HOP | without | _listed(fields)) - {"content-length", "transfer-encoding"}
    return [*((name, value) for name, value in fields if name not in dropped), *extra, *connection]


def _listed(fields: Fields) -> set[str]:
    """Return the words of the Connection fields."""
    return {word.strip().lower() for name, value in fields if name == "connection" for word in value.split(",")}


def _decoded(headers: Iterable[tuple[bytes, bytes]]) -> Fields:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]


def _encoded(fields: Fields) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in fields]


async def read_request(reader: asyncio.StreamReader, before: bytes = b"") -> RequestHead:
    """Read the head of a request; `before` holds bytes already read.

    Raise BadHead for an invalid head, IncompleteReadError when the program has disconnected.
    """
    data = before + await _read_head(reader, len(before))
    _check_lines(data)
    lengths = LENGTH_FIELD.findall(data)
    if len(lengths) > 1 or not all(LENGTH.fullmatch(length) for length in lengths):
        raise BadHead("A request has one Content-Length, in digits.")
    connection = h11.Connection(h11.SERVER, MAX_HEAD_BYTES)
    request = _parsed(connection, _with_host(_with_ascii_target(data)))
    if request.http_version not in (b"1.1", b"1.0"):
        raise BadHead("Only HTTP/1.1 is supported.")
    fields = _decoded(request.headers)
    if request.http_version == b"1.0" and "transfer-encoding" in [name for name, _ in fields]:
        raise BadHead("HTTP/1.0 has no chunked bodies.")
    return RequestHead(connection, request.method.decode(), request.target.decode(), fields)


async def read_response(reader: asyncio.StreamReader, connection: h11.Connection):
    """Read the head of the next response, or informational response, on a connection that a request was sent on.

    Raise BadHead, also when the host closes its end before.
    """
    try:
        data = await _read_head(reader)
    except (ConnectionError, asyncio.IncompleteReadError):
        raise BadHead("The host ended the connection before the head of its answer was complete.") from None
    data = b"".join(line.rstrip(b"\r") + b"\r\n" for line in data.split(b"\n")[:-1])
    _check_lines(data)
    if not all(LENGTH.fullmatch(part) for value in LENGTH_FIELD.findall(data) for part in value.split(b",")):
        raise BadHead("The host's Content-Length is no number.")
    response = _parsed(connection, data)
    if not response.http_version.startswith(b"1.") or response.status_code >= 600:
        raise BadHead("The host's answer is not one of HTTP/1.1.")
    return response


async def _read_head(reader: asyncio.StreamReader, read: int = 0) -> bytes:
    """Return the lines up to the first empty one, which ends with CRLF or LF; `read` bytes were read before."""
    lines: list[bytes] = []
    size = read
    while not lines or lines[-1] not in (b"\r\n", b"\n"):
        try:
            lines.append(await reader.readuntil(b"\n"))
            size += len(lines[-1])
        except asyncio.LimitOverrunError:
            size = MAX_HEAD_BYTES + 1
        if size > MAX_HEAD_BYTES:
            raise BadHead(f"The head of a message has at most {MAX_HEAD_BYTES // 1024} KB.")
        if len(lines) - 2 > MAX_FIELDS:
            raise BadHead(f"The head of a message has at most {MAX_FIELDS} fields.")
    return b"".join(lines)


def _check_lines(data: bytes):
    if not STRICT_LINES.fullmatch(data):
        raise BadHead(_fault(data))


def _fault(data: bytes) -> str:
    """Return what is wrong with a head, without quoting it: it may hold a secret."""
    lines = data.split(b"\n")[:-1]
    fields = [line for line in lines[1:] if line.strip()]
    names = [line.partition(b":")[0].lower() for line in fields]
    is_answer = data.startswith(b"HTTP/")
    for is_wrong, words in (
        (not all(line.endswith(b"\r") for line in lines), "a line ends without CR"),
        (CONTROL.search(data), "there is a control character in it"),
        (not _FIRST_LINE.match(data), "its first line is not one of HTTP/1.1"),
        (any(line.startswith((b" ", b"\t")) for line in fields), "a field goes on in a second line"),
        (not all(FIELD.match(line) for line in fields), "a line is no field of the form Name: value"),
        (not is_answer and names.count(b"host") != 1, "there must be exactly one Host field"),
        (b"transfer-encoding" in names, "chunked is the only Transfer-Encoding that is passed on"),
        (is_answer and data[9:12] == b"101", "the host switched protocols without being asked"),
    ):
        if is_wrong:
            return f"Invalid message head: {words}."
    return "Invalid message head."


def _with_ascii_target(data: bytes) -> bytes:
    """Percent-encode raw bytes of the request's address beyond ASCII, as curl sends those of a name in UTF-8."""
    line, end, rest = data.partition(b"\r\n")
    return NOT_ASCII.sub(lambda found: b"%%%02X" % found[0][0], line) + end + rest


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
        raise BadHead(_fault(data)) from None  # h11's own message quotes the line
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in head.headers}:
        raise BadHead("A message has Content-Length or Transfer-Encoding, not both.")
    return head

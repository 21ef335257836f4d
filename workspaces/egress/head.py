"""The head of an HTTP/1 message, read so strictly that no two readers can understand it differently."""

import asyncio
import re
from dataclasses import dataclass

HEAD_AT_MOST = 32 * 1024
FIELDS_AT_MOST = 100
TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
TARGET = re.compile(rb"[\x21-\x7e]+")
# What concerns one connection and not the message; never passed on.
OF_CONNECTION = frozenset(
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


class BadHead(Exception):
    """Why a message is not passed on, in words."""


@dataclass
class Head:
    """`first` are the three parts of the first line."""

    first: tuple[str, str, str]
    fields: list[tuple[str, str]]  # names in small letters

    def all(self, name: str) -> list[str]:
        return [value for known, value in self.fields if known == name]

    @property
    def chunked(self) -> bool:
        return bool(self.all("transfer-encoding"))

    @property
    def length(self) -> int | None:
        """Of the body as announced; None where nothing is said."""
        found = self.all("content-length")
        return int(found[0]) if found else None

    def with_fields(self, *extra: tuple[str, str], without: frozenset[str] = frozenset()) -> bytes:
        """The head as it is sent on, for one message on one connection."""
        listed = {word.strip().lower() for value in self.all("connection") for word in value.split(",")}
        # Framing is ours to vouch for: a list in Connection cannot remove it.
        dropped = (OF_CONNECTION | without | listed) - {"content-length", "transfer-encoding"}
        fields = [*((n, v) for n, v in self.fields if n not in dropped), *extra, ("connection", "close")]
        lines = [" ".join(self.first), *(f"{name}: {value}" for name, value in fields)]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


async def read_head(reader: asyncio.StreamReader, before: bytes = b"") -> Head:
    """The next head; `before` was read already. BadHead; IncompleteReadError when the other side is gone."""
    try:
        data = before + await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise BadHead("The head of the message is too long.") from None
    if len(data) > HEAD_AT_MOST:
        raise BadHead("The head of the message is too long.")
    first, *lines = data[:-4].split(b"\r\n")
    parts = first.split(b" ", 2)
    if len(parts) == 2:
        parts.append(b"")  # an answer may leave its reason out
    if len(parts) != 3 or not all(VALUE.fullmatch(part) for part in parts):
        raise BadHead("The first line makes no sense.")
    if len(lines) > FIELDS_AT_MOST:
        raise BadHead("There are too many fields in the head.")
    head = Head(tuple(part.decode("latin-1") for part in parts), [_field(line) for line in lines])
    _check_framing(head)
    return head


def _field(line: bytes) -> tuple[str, str]:
    name, colon, value = line.partition(b":")
    # No blank before the colon, no continued lines, no bare CR or LF: each is read in two ways by somebody.
    if not colon or not TOKEN.fullmatch(name) or not VALUE.fullmatch(value):
        raise BadHead("A field of the head makes no sense.")
    return name.decode("latin-1").lower(), value.decode("latin-1").strip(" \t")


def _check_framing(head: Head):
    coding, length = head.all("transfer-encoding"), head.all("content-length")
    if coding and (length or len(coding) > 1 or coding[0].lower() != "chunked"):
        raise BadHead("The end of the body is said in two ways.")
    if len(length) > 1 or any(not (text.isascii() and text.isdecimal() and len(text) < 19) for text in length):
        raise BadHead("The length of the body makes no sense.")


def check_request(head: Head):
    """BadHead for what is no request of HTTP/1.1 or 1.0."""
    method, target, version = head.first
    if not TOKEN.fullmatch(method.encode()) or not TARGET.fullmatch(target.encode("latin-1")):
        raise BadHead("The request makes no sense.")
    if version not in ("HTTP/1.1", "HTTP/1.0"):
        raise BadHead("Only HTTP/1.1 is spoken here.")
    if version == "HTTP/1.0" and head.chunked:
        raise BadHead("HTTP/1.0 knows no chunks.")
    # CONNECT names its host in the first line, and older programs only there.
    if len(head.all("host")) > 1 or (method != "CONNECT" and not head.all("host")):
        raise BadHead("There must be exactly one Host field.")

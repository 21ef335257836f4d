"""Requests to a server that speaks streamable HTTP, and what it answers, message by message."""

import http.client
import re
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any
from urllib.parse import urlsplit

from handrail_client import json_text
from handrail_client.errors import HandrailError
from handrail_client.mcp import messages

CONNECTS_WITHIN = 30.0  # seconds
LISTS_WITHIN = 30.0
MAX_LIST = 16 << 20  # bytes of one page of tools
PIECE = 1 << 16
# Of one connection, or set anew for the other one.
NOT_PASSED_ON = {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host", "content-length"}
NOT_PASSED_ON |= {"proxy-authenticate", "proxy-authorization", "proxy-connection", "accept-encoding", "expect"}
BROKEN = (OSError, http.client.HTTPException, ValueError)


class Upstream:
    """The server behind the gate."""

    def __init__(self, url: str):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.fragment or parts.username:
            raise HandrailError(f"The address of the server must be like https://mcp.example/mcp, and is {url!r}.")
        self.path, self._host = parts.path or "/", parts.netloc
        self._target = self.path + (f"?{parts.query}" if parts.query else "")
        self._kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection

    def send(self, method: str, headers: list[tuple[str, str]], body: bytes | None) -> http.client.HTTPConnection:
        """Send a request and return its connection; OSError or HTTPException if that fails."""
        connection = self._kind(self._host, timeout=CONNECTS_WITHIN)
        try:
            connection.putrequest(method, self._target, skip_accept_encoding=True)
            for name, value in headers:
                if name.lower() not in NOT_PASSED_ON:
                    connection.putheader(name, value)
            if body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body)
            connection.sock.settimeout(None)  # a tool may take its time
        except BaseException:
            connection.close()
            raise
        return connection

    def ask(self, headers: list[tuple[str, str]], message: dict) -> Any:
        """Send a request of our own, and return its result; None if the server does not answer it."""
        with (
            suppress(*BROKEN, RecursionError, AttributeError),
            closing(self.send("POST", headers, messages.line_of(message))) as connection,
        ):
            connection.sock.settimeout(LISTS_WITHIN)
            answer = connection.getresponse()
            if not is_stream(answer):
                return json_text.loads_as_written(answer.read(MAX_LIST)).get("result")
            for event in events_of(answer):
                told = message_of(event)
                if isinstance(told, dict) and told.get("id") == message["id"]:
                    return told.get("result")
        return None


def is_stream(answer: http.client.HTTPResponse) -> bool:
    return (answer.getheader("Content-Type") or "").partition(";")[0].strip().lower() == "text/event-stream"


def events_of(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    """Yield the events of a stream as they come, with the empty line at their end."""
    lines: list[bytes] = []
    while line := answer.readline():
        lines.append(line)
        if not line.strip(b"\r\n"):
            yield b"".join(lines)
            lines = []
    if lines:
        yield b"".join(lines)


def message_of(event: bytes) -> Any:
    """Return the JSON of an event; None if it has none."""
    data = [line[5:].removeprefix(b" ") for line in re.split(rb"\r\n|\r|\n", event) if line.startswith(b"data:")]
    try:
        return json_text.loads_as_written(b"\n".join(data))
    except (ValueError, RecursionError):
        return None


def event_of(message: Any) -> bytes:
    return b"event: message\ndata: " + messages.line_of(message).rstrip() + b"\n\n"

"""Requests to a server that speaks streamable HTTP, and what it answers, message by message."""

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from handrail_client.errors import HandrailError
from handrail_client.mcp import messages

CONNECTS_WITHIN = 30.0  # seconds
LISTS_WITHIN = 30.0
MAX_PAGES = 50
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

    def tools(self, headers: list[tuple[str, str]], numbers: Iterator[str]) -> list[dict]:
        """Return the tools as the server describes them now; [] if it does not say."""
        kept = [(name, value) for name, value in headers if not name.lower().startswith("mcp-name")]
        kept = [(name, "tools/list" if name.lower() == "mcp-method" else value) for name, value in kept]
        found: list[dict] = []
        cursor = None
        for _ in range(MAX_PAGES):
            result = None
            with suppress(*BROKEN, RecursionError, AttributeError):
                result = self._page(kept, next(numbers), cursor)
            tools = result.get("tools") if isinstance(result, dict) else None
            found += tools if isinstance(tools, list) else []
            cursor = result.get("nextCursor") if isinstance(result, dict) else None
            if not isinstance(cursor, str):
                break
        return found

    def _page(self, headers: list, message_id: str, cursor: str | None) -> Any:
        params = {"cursor": cursor} if cursor else {}
        asked = {"jsonrpc": "2.0", "id": message_id, "method": "tools/list", "params": params}
        connection = self.send("POST", headers, messages.line_of(asked))
        try:
            connection.sock.settimeout(LISTS_WITHIN)
            answer = connection.getresponse()
            if not is_stream(answer):
                return json.loads(answer.read(MAX_LIST)).get("result")
            for event in events_of(answer):
                message = message_of(event)
                if isinstance(message, dict) and message.get("id") == message_id:
                    return message.get("result")
            return None
        finally:
            connection.close()


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
        return json.loads(b"\n".join(data))
    except (ValueError, RecursionError):
        return None


def event_of(message: Any) -> bytes:
    return b"event: message\ndata: " + messages.line_of(message).rstrip() + b"\n\n"

"""A proxy between Claude Code and Handrail that keeps every byte of every answer and passes it on untouched."""

import json
import socket
import threading
import time
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass
class Exchange:
    """One hook: what Claude Code posted, and what came back, byte for byte (empty: the server was gone)."""

    event: dict
    answer: bytes
    seconds: float

    @property
    def status_line(self) -> bytes:
        return self.answer.split(b"\r\n", 1)[0]

    @property
    def headers(self) -> dict[str, str]:
        lines = self.answer.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
        return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}

    @property
    def body(self) -> bytes:
        return self.answer.partition(b"\r\n\r\n")[2]

    @property
    def decision(self) -> str:
        return json.loads(self.body)["hookSpecificOutput"]["permissionDecision"]

    @property
    def reason(self) -> str:
        return json.loads(self.body)["hookSpecificOutput"]["permissionDecisionReason"]

    def fault(self) -> str | None:
        """Why Claude Code could take this answer for a yes, or None. No answer at all is safe: it blocks."""
        if not self.answer:
            return None
        if not self.status_line.startswith(b"HTTP/1.1 200"):
            return f"not 200: {self.status_line!r}"
        if self.headers.get("content-length") != str(len(self.body)):
            return f"Content-Length {self.headers.get('content-length')} of {len(self.body)} bytes"
        try:
            said = json.loads(self.body)
        except ValueError:
            return f"no JSON: {self.body[:80]!r}"
        if not isinstance(said, dict) or not said:
            return f"says nothing: {self.body[:80]!r}"
        if self.event["hook_event_name"] == "PreToolUse":
            verdict = said.get("hookSpecificOutput", {})
            if self.event["tool_name"] in ("ExitPlanMode", "AskUserQuestion") and "permissionDecision" not in verdict:
                return None  # Claude Code asks its own person then
            if verdict.get("hookEventName") != "PreToolUse" or verdict.get("permissionDecision") not in (
                "allow",
                "deny",
            ):
                return f"no verdict: {self.body[:200]!r}"
        return None


class Wire:
    """Listens on loopback and passes on to `upstream`; `exchanges` grows with each hook that has ended."""

    def __init__(self, upstream: str):
        self._upstream = (urlsplit(upstream).hostname, urlsplit(upstream).port)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.exchanges: list[Exchange] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def before_tools(self) -> list[Exchange]:
        return [e for e in self.exchanges if e.event["hook_event_name"] == "PreToolUse"]

    def faults(self) -> list[str]:
        return [fault for exchange in self.exchanges if (fault := exchange.fault())]

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket):
        """One request for each connection: the answer's end is then the connection's end, and nothing can hide."""
        with client:
            head, body = _read_request(client)
            if head is None:
                return
            began, answer = time.monotonic(), bytearray()
            try:
                with socket.create_connection(self._upstream) as server:
                    server.sendall(_closing(head) + body)
                    while part := server.recv(65536):
                        answer += part
                        client.sendall(part)
            except OSError:
                pass  # one of the two is gone; what had come by then is kept
            self.exchanges.append(Exchange(json.loads(body), bytes(answer), time.monotonic() - began))


def _read_request(client: socket.socket) -> tuple[bytes | None, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        part = client.recv(65536)
        if not part:
            return None, b""
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")
    )
    while len(body) < length:
        body += client.recv(65536)
    return head, body


def _closing(head: bytes) -> bytes:
    kept = [line for line in head.split(b"\r\n") if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*kept, b"Connection: close"]) + b"\r\n\r\n"

"""A desk on loopback that answers hooks as it should, or in one of the ways in which a desk can fail."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from approvals import agents
from approvals.agents.dialect import ALLOW, DENY, Reply
from approvals.agents.heard import Before
from approvals.hooks.responses import body_of

REASON = "Not before Monday"
HELD = 5  # seconds
ANSWERS = {
    "500": (500, b"Internal Server Error"),
    "wrong token": (401, b'{"detail": "This token is invalid."}'),
    "empty 2xx": (200, b""),
    "{}": (200, b"{}"),
    "garbage": (200, b"\x00<html>not what was asked for"),
}
MODES = ("allowed", "denied", "held", "edited", "desk down", *ANSWERS, "cut off", "killed while it waits")


class Desk:
    """`mode` is one of MODES; `heard` counts the calls that came."""

    def __init__(self, mode: str):
        self.mode, self.heard, self.over = mode, 0, threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        if mode == "desk down":
            self._server.server_close()
        else:
            threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self):
        self.over.set()
        if self.mode != "desk down":
            self._server.shutdown()
            self._server.server_close()

    def reply(self, heard: Before) -> Reply:
        """Return a person's decision."""
        if self.mode == "denied":
            return Reply(DENY, REASON)
        if self.mode == "held":
            self.over.wait(HELD)
        if self.mode == "edited":
            command = heard.arguments["command"].replace("asked", "edited")
            return Reply(ALLOW, "Approved.", heard.arguments | {"command": command})
        return Reply(ALLOW, "Approved.", heard.arguments)


def _handler(desk: Desk) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            dialect = agents.find(self.path.rpartition("/")[2])
            heard = dialect.read(event, self.headers.get("X-Handrail-Event", ""))
            if not isinstance(heard, Before):
                self._send(200, self._body(dialect.answer(heard, Reply()), decides=False))
                return
            desk.heard += 1
            if desk.mode in ("cut off", "killed while it waits"):
                desk.over.wait(2 if desk.mode == "killed while it waits" else 0)
                self.connection.shutdown(socket.SHUT_RDWR)
            elif desk.mode in ANSWERS:
                self._send(*ANSWERS[desk.mode])
            else:
                self._send(200, self._body(self._answer(dialect, heard), decides=True))

        def _answer(self, dialect, heard) -> dict:
            reply = desk.reply(heard)
            if reply.decision == ALLOW and not dialect.carries(heard, reply.arguments):
                return dialect.deny(f"Make this call instead: {json.dumps(dialect.native(heard, reply.arguments))}")
            return dialect.answer(heard, reply)

        def _body(self, answer: dict, *, decides: bool) -> bytes:
            return body_of(self.headers.get("Prefer", ""), answer, decides=decides)

        def _send(self, status: int, body: bytes):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    return Handler

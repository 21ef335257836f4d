"""A desk on loopback that answers agents' hooks as a script says, until it leaves."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from approvals.agents import dialects
from approvals.agents.dialect import ALLOW, Dialect, Reply
from approvals.agents.hook_events import Before
from approvals.agents.response import body_of
from dashboard import json_text


class Desk:
    """`decide(heard)` returns a person's decision; `heard` are the calls that came, `reported` the other events."""

    def __init__(self, decide: Callable[[Before], Reply]):
        self.decide, self.heard, self.reported = decide, [], []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._is_open = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def leave(self):
        """Close the port: whoever calls from now on is refused the connection."""
        if self._is_open:
            self._is_open = False
            self._server.shutdown()
            self._server.server_close()

    def answer_call(self, dialect: Dialect, heard: Before, handler) -> None:
        """Answer a call that waits, through the request's handler."""
        reply = self.decide(heard)
        if reply.decision == ALLOW and not dialect.carries(heard, reply.arguments):
            asked = json_text.dumps(dialect.native(heard, reply.arguments))
            answer = dialect.deny(f"Make this call instead: {asked}")
        else:
            answer = dialect.answer(heard, reply)
        handler.send(200, answer, decides=True)


def _handler(desk: Desk) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            event = json_text.loads(self.rfile.read(int(self.headers["Content-Length"])))
            dialect = dialects.find(self.path.rpartition("/")[2])
            heard = dialect.read(event, self.headers.get("X-Handrail-Event", ""))
            if not isinstance(heard, Before):
                desk.reported.append(heard)
                self.send(200, dialect.answer(heard, Reply()), decides=False)
                return
            desk.heard.append(heard)
            desk.answer_call(dialect, heard, self)

        def send(self, status: int, answer: dict | bytes, *, decides: bool = True):
            if isinstance(answer, dict):
                answer = body_of(self.headers.get("Prefer", ""), answer, decides=decides)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_):
            pass

    return Handler

"""A receiver of the Agent Approval Protocol on loopback: the protocol's own, behind a small HTTP server."""

import asyncio
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from agentapprovalprotocol import Receiver


class AapReceiver:
    """Keeps each message as (status, headers, message) and each run that it woke as (handle, request)."""

    def __init__(self):
        self.got, self.woken = [], []
        self.answers = []  # (status, headers) in place of the receiver's own, each once
        self.credential = ""
        self.pause = 0  # seconds before each answer
        self.receiver = Receiver(resumers={"test": lambda handle, request: self.woken.append((handle, request))})
        self._loop = asyncio.new_event_loop()
        self._running = threading.Thread(target=self._loop.run_forever)
        self._running.start()
        self._port = 0
        self.listen()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/aap/events?of=team"

    def listen(self):
        kept = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status, answer, headers = kept._answer(dict(self.headers), body)
                self.send_response(status)
                for name, value in (headers | {"Content-Length": str(len(answer))}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._port = self._server.server_port
        self._serving = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._serving.start()

    def _answer(self, headers: dict, body: bytes) -> tuple[int, bytes, dict]:
        time.sleep(self.pause)
        answer, more = b"", {}
        if self.answers:
            status, more = self.answers.pop(0)
        else:
            status, answer = self.run(self.receiver.handle(headers, body))
        self.got.append((status, headers, json.loads(body)))
        return status, answer, more

    def run(self, coroutine):
        """Run a coroutine of the receiver on its event loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def provision(self, provider: str, token: str, *, url: str | None = None, **more):
        """Register, as the receiver itself does it; the same key again unless `registration_id` was emptied."""
        before = self.receiver.client
        wanted = {"provider_url": provider, "provisioner_token": token, "url": self.url if url is None else url}
        made = self.run(self.receiver.provision(**wanted, **more))
        if before:
            self.run(before.aclose())
        self.credential = made.token
        return made

    def resolved(self) -> list[tuple[int, str]]:
        """Each (status, request id) of what it was told."""
        return [(status, told["request_id"]) for status, _, told in self.got if told["type"] == "request.resolved"]

    def hang_up(self):
        """Listen no more."""
        self._server.shutdown()
        self._serving.join()
        self._server.server_close()

    def close(self):
        self.hang_up()
        if self.receiver.client:
            self.run(self.receiver.client.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._running.join()
        self._loop.close()


class Dripping:
    """A server that begins to answer and never ends: one byte of a header every tenth of a second."""

    def __enter__(self):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._drip)
        self._thread.start()
        return self

    def _drip(self):
        connection, _ = self._socket.accept()
        with connection:
            try:
                connection.sendall(b"HTTP/1.1 204 No Content\r\nSlow: ")
                for _ in range(300):
                    connection.sendall(b"x")
                    if self._over.wait(0.1):
                        break
            except OSError:
                pass

    def __exit__(self, *args):
        self._over.set()
        self._thread.join()
        self._socket.close()

"""What receives a team's log on loopback: a webhook, and a syslog server."""

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Webhook:
    """Keeps each request as (headers, body), and answers with `status`."""

    def __init__(self):
        self.got, self.status = [], 204
        kept = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                kept.got.append((dict(self.headers), body))
                self.send_response(kept.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/log"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def close(self):
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Syslog:
    """Reads each connection to its end, and closes it."""

    def __init__(self):
        self.got = b""
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self):
        while True:
            connection, _ = self._socket.accept()
            with connection:
                got = b""
                while data := connection.recv(65536):
                    got += data
                if got == b"end":
                    return
                self.got += got

    def messages(self) -> list[bytes]:
        """The messages by the lengths before them."""
        found, rest = [], self.got
        while rest:
            length, _, rest = rest.partition(b" ")
            found.append(rest[: int(length)])
            rest = rest[int(length) :]
        return found

    def close(self):
        with socket.create_connection(self._socket.getsockname()) as last:
            last.sendall(b"end")
        self._thread.join()
        self._socket.close()

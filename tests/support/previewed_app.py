"""A program that tests preview: it tells what it was asked, sets cookies, streams, redirects, and echoes a WebSocket.

It runs inside a workspace with the standard library alone: `python3 previewed_app.py PORT`.
"""

import base64
import hashlib
import json
import struct
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PAGE = b"""<!doctype html><title>app</title><h1>From the workspace</h1><p id=said></p>
<script>
  const socket = new WebSocket(`ws://${location.host}/socket`, "echo");
  socket.onopen = () => socket.send("hello");
  socket.onmessage = event => document.getElementById("said").textContent = event.data;
</script>"""


class App(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/socket":
            self.echo()
        elif self.path == "/page":
            self.answer(PAGE, {"Content-Type": "text/html"})
        elif self.path == "/away":
            self.answer(b"", {"Location": f"http://localhost:{self.server.server_port}/page?x=1"}, status=302)
        elif self.path == "/slow":
            self.stream()
        else:
            self.tell()

    def do_POST(self):
        self.tell()

    def tell(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        told = {"method": self.command, "path": self.path, "headers": dict(self.headers.items()), "body": len(body)}
        cookies = ["own=1; Path=/", "wide=1; Domain=localhost", f"{self.path[1:] or 'x'}=1"]
        self.answer(json.dumps(told).encode(), {"Strict-Transport-Security": "max-age=9"}, cookies=cookies)

    def answer(self, body, headers, *, status=200, cookies=()):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        for cookie in cookies:
            self.send_header("Set-Cookie", cookie)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"5\r\nfirst\r\n")
        self.wfile.flush()
        time.sleep(300)  # until the reader goes away

    def echo(self):
        key = self.headers["Sec-WebSocket-Key"].encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Protocol", "echo")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key).digest()).decode())
        self.end_headers()
        while True:
            kind, size = self.rfile.read(2)
            if kind & 15 == 8:
                break
            mask, size = self.rfile.read(4), size & 127
            said = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self.rfile.read(size)))
            self.wfile.write(struct.pack("!BB", kind, size) + said)
        self.close_connection = True

    def log_message(self, *args):
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), App).serve_forever()

"""A server of git-lfs's files, written from its published batch API (docs/api/batch.md of git-lfs), on loopback."""

import base64
import hashlib
import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MOST_DRIPS = 500
TYPE = "application/vnd.git-lfs+json"


class LfsServer(ThreadingHTTPServer):
    """`kept`: {oid: content}; `asked`: (method, path, Authorization) of each request; `password`: asked of everybody.

    `more` is said of each object in batch answers, and `others` are objects in them that nobody asked for.
    With `drips`, the batch answer or a content comes byte by byte, at most MOST_DRIPS of them, each told to `on_drip`:
    from its "batch headers", "batch", "content headers" or "content" on.
    `action(oid)` returns what the batch answer says of an object that is kept; `answers`: {path: (status, headers)}.
    """

    daemon_threads = True

    def __init__(self, address="127.0.0.1"):
        super().__init__((address, 0), _Handler)
        self.kept, self.asked, self.answers, self.password = {}, [], {}, ""
        self.more, self.others = {}, []
        self.drips, self.dripped, self.on_drip = "", 0, lambda: None
        self.at = f"http://{address}:{self.server_port}"
        self.action = lambda oid: {"href": f"{self.at}/objects/{oid}"}

    def keep(self, content: bytes) -> str:
        """Keep a content and return its pointer."""
        oid = hashlib.sha256(content).hexdigest()
        self.kept[oid] = content
        return f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {len(content)}\n"


class _Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def _enter(self) -> bool:
        sent = self.headers.get("Authorization", "")
        self.server.asked.append((self.command, self.path, sent))
        wanted = base64.b64encode(f"x-access-token:{self.server.password}".encode()).decode()
        if self.path in self.server.answers:
            self._answer(*self.server.answers[self.path])
            return False
        if self.server.password and sent != f"Basic {wanted}":
            self._answer(401, {"LFS-Authenticate": "Basic"})
            return False
        return True

    def _drip(self):
        try:
            while self.server.dripped < MOST_DRIPS:
                self.server.dripped += 1
                self.server.on_drip()
                self.wfile.write(b"0")
                time.sleep(0.02)
        except OSError:
            pass

    def _answer(self, status, headers, body=b"", what=""):
        if what and self.server.drips == f"{what} headers":
            self.wfile.write(b"HTTP/1.1 200 ")
            self._drip()
            return
        self.send_response(status)
        if what and self.server.drips == what:
            self.send_header("Content-Length", str(MOST_DRIPS + 1))
            self.end_headers()
            self._drip()
            return
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._enter():
            return
        if not self.path.endswith("/info/lfs/objects/batch") or self.headers["Accept"] != TYPE:
            self._answer(404, {})
            return
        assert asked["operation"] == "download"
        assert "basic" in asked.get("transfers", ["basic"])
        objects = []
        for each in asked["objects"]:
            kept = each["oid"] in self.server.kept
            said = {"actions": {"download": self.server.action(each["oid"])}} if kept else None
            objects.append(each | (said or {"error": {"code": 404, "message": "Object does not exist"}}))
        objects = [each | self.server.more for each in objects] + self.server.others
        body = json.dumps({"transfer": "basic", "objects": objects}).encode()
        self._answer(200, {"Content-Type": TYPE}, body, "batch")

    def do_GET(self):
        if self._enter():
            content = self.server.kept.get(self.path.rpartition("/")[2])
            self._answer(*((404, {}) if content is None else (200, {}, content, "content")))


@contextmanager
def lfs_server(address="127.0.0.1"):
    with LfsServer(address) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()

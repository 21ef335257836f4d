"""A host as credentials and rules by method are for: an API that tells what it got, registries, a git server."""

import contextlib
import hashlib
import http.server
import json
import os
import subprocess
import threading
import time

from tests.workspaces.egress.grounds import OPEN, certificate

HOST = "api.leash.example"


class Api(http.server.BaseHTTPRequestHandler):
    """Answers with what it got, with `files`, and a git repository below /git; takes crates that are published."""

    protocol_version = "HTTP/1.1"
    got: list = []
    files: dict = {}  # {path: content} that are returned as they are; None: there is no such file
    repositories = ""

    def log_message(self, *args):
        pass

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding"):
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        shown = self.headers.get("Authorization", "")
        self.got.append((self.command, self.path, shown, body))
        if self.path.startswith("/git/"):
            return self.git(body, shown)
        if self.path.endswith("/api/v1/crates/new"):
            return self.publish(body)
        if self.command == "GET" and self.path in self.files:
            found = self.files[self.path]
            return self.answer(404 if found is None else 200, found or b"", [("Content-Type", "application/json")])
        text = json.dumps({"path": self.path, "authorization": shown, "body": body.decode("latin-1")}).encode()
        self.answer(200, text, [("X-Shown", shown or "none"), ("Set-Cookie", f"token={shown[-36:]}")])

    do_GET = do_POST = do_PUT = do_DELETE = handle_one

    def publish(self, body):
        """Enter a crate into the index: four bytes of length and what it is, four bytes of length and its archive."""
        size = int.from_bytes(body[:4], "little")
        about, archive = json.loads(body[4 : 4 + size]), body[8 + size :]
        name = about["name"]
        line = {"name": name, "vers": about["vers"], "deps": [], "features": {}, "yanked": False}
        line["cksum"] = hashlib.sha256(archive).hexdigest()
        root = self.path.removesuffix("/api/v1/crates/new")
        self.files[f"{root}/index/{name[:2]}/{name[2:4]}/{name}"] = json.dumps(line).encode()
        self.answer(200, b'{"warnings": {}}', [("Content-Type", "application/json")])

    def git(self, body, shown):
        if not shown.startswith("Basic "):
            return self.answer(401, b"", [("WWW-Authenticate", "Basic")])
        path, _, query = self.path.removeprefix("/git").partition("?")
        env = {
            "GIT_PROJECT_ROOT": self.repositories,
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
        }
        env |= {
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "REMOTE_USER": "me",
        }
        env |= {"CONTENT_LENGTH": str(len(body)), "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", "")}
        env |= {"GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "PATH": os.environ["PATH"]}
        done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=True)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        status = next((int(value[:3]) for name, value in fields if name == "Status"), 200)
        self.answer(status, content, [field for field in fields if field[0] != "Status"])

    def answer(self, status, content, fields):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@contextlib.contextmanager
def serving(folder):
    """Serve `Api` over TLS; `port`, and `trusted`, the file by which clients trust it."""
    tls, trusted = certificate(folder, HOST)
    repository = folder / "repositories" / "shop.git"
    for command in (["init", "-q", "--bare", repository], ["-C", repository, "config", "http.receivepack", "true"]):
        subprocess.run(["git", *command], check=True)
    server = http.server.ThreadingHTTPServer((OPEN, 0), Api)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    Api.repositories, Api.got = str(folder / "repositories"), []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.trusted, server.port = trusted, server.server_address[1]
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def settings_for(folder, server) -> dict:
    """The product's settings with which workspaces reach the host."""
    hosts = folder / "hosts"
    hosts.write_text(f"{OPEN} {HOST}\n")
    reach = {"HANDRAIL_EGRESS_HOSTS": str(hosts), "HANDRAIL_EGRESS_NETWORKS": "127.77.0.0/16"}
    return reach | {"HANDRAIL_UPSTREAM_CA": str(server.trusted)}


def waiting(desk, path) -> dict:
    """The waiting action of the proxy about this path."""
    for _ in range(120):
        for action in desk.get("/actions?status=pending").json["actions"]:
            found = desk.get(f"/actions/{action['id']}").json
            if found["tool"].startswith("network.") and path in json.dumps(found):
                return found
        time.sleep(0.5)
    raise AssertionError("nothing was asked")


def decide(person, action, verdict, **more):
    answer = {"verdict": verdict, "digest": action["digest"], **more}
    person.post(f"/actions/{action['id']}/decision", answer, expect=200)

"""A code host on this machine: repositories over git's smart HTTP, and the answers of GitHub, GitLab or Gitea.

The shapes of requests and answers follow the hosts' API documents; each call is kept in `calls`.
"""

import base64
import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "token-of-the-test"


class CodeHost:
    """`kind`: github, gitlab or gitea. `root`: a folder of bare repositories that allow pushes.

    `is_private`: git asks for the token to read as well. `sent` has the credentials of each of git's requests.
    """

    def __init__(self, kind: str, root=None, *, is_private: bool = False):
        self.kind, self.root, self.is_private, self.sent = kind, root, is_private, []
        self.calls, self.pulls, self.fails = [], [], None
        handler = type("Bound", (Handler,), {"host": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def answer(self, method: str, path: str, query: dict, headers, body) -> tuple[int, object]:
        """Return (status, JSON) of an API call."""
        return getattr(self, f"_{self.kind}")(method, path, query, headers, body)

    def _github(self, method, path, query, headers, body):
        if path == "/api/v3/meta":
            return 200, {"verifiable_password_authentication": True}
        if not path.startswith("/api/v3/repos/team/shop"):
            return 404, {"message": "Not Found"}
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            return 401, {"message": "Bad credentials"}
        if method == "GET" and path.endswith("/shop"):
            return 200, {"default_branch": "main"}
        if method == "GET":
            owner, _, branch = query["head"][0].partition(":")
            return 200, [self._shown(pull) for pull in self.pulls if pull["head"] == branch and owner == "team"]
        if any(pull["head"] == body["head"] and "repo" not in pull for pull in self.pulls):
            why = {"message": f"A pull request already exists for team:{body['head']}."}
            return 422, {"message": "Validation Failed", "errors": [why]}
        return 201, self._shown(self._new(body["head"], body["base"], body))

    def _gitea(self, method, path, query, headers, body):
        if path == "/api/v1/version":
            return 200, {"version": "1.22.0"}
        if not path.startswith("/api/v1/repos/team/shop"):
            return 404, {"message": "404 page not found"}
        if headers.get("Authorization") != f"token {TOKEN}":
            return 401, {"message": "token is required"}
        if method == "GET" and path.endswith("/shop"):
            return 200, {"default_branch": "main"}
        if method == "GET":
            return 200, [self._shown(pull) for pull in self.pulls]
        if any(pull["head"] == body["head"] and "repo" not in pull for pull in self.pulls):
            return 409, {"message": "pull request already exists for these targets"}
        return 201, self._shown(self._new(body["head"], body["base"], body))

    def _gitlab(self, method, path, query, headers, body):
        if path == "/api/v1/version":
            return 404, None
        if headers.get("PRIVATE-TOKEN") != TOKEN:
            return 401, {"message": "401 Unauthorized"}
        if path == "/api/v4/version":
            return 200, {"version": "17.0.0"}
        if not path.startswith("/api/v4/projects/team/shop"):
            return 404, {"message": "404 Project Not Found"}
        if method == "GET" and path.endswith("/shop"):
            return 200, {"default_branch": "main"}
        if method == "GET":
            found = [pull for pull in self.pulls if pull["head"] == query["source_branch"][0]]
            return 200, [self._merge_request(pull) for pull in found]
        if any(pull["head"] == body["source_branch"] and "repo" not in pull for pull in self.pulls):
            return 409, {"message": ["Another open merge request already exists for this source branch: !1"]}
        made = self._new(body["source_branch"], body["target_branch"], body | {"body": body["description"]})
        return 201, self._merge_request(made)

    def _new(self, head: str, base: str, body: dict) -> dict:
        pull = {"number": len(self.pulls) + 1, "head": head, "base": base, "title": body["title"], "body": body["body"]}
        self.pulls.append(pull)
        return pull

    def _shown(self, pull: dict) -> dict:
        url = f"{self.url}/team/shop/pull/{pull['number']}"
        head = {"ref": pull["head"], "repo": pull.get("repo", {"full_name": "team/shop"})}
        base = {"ref": pull["base"], "repo": {"full_name": "team/shop"}}
        return {"number": pull["number"], "html_url": url, "head": head, "base": base}

    def _merge_request(self, pull: dict) -> dict:
        url = f"{self.url}/team/shop/-/merge_requests/{pull['number']}"
        projects = {"source_project_id": pull.get("project", 1), "target_project_id": 1}
        return {"iid": pull["number"], "web_url": url, "target_branch": pull["base"], **projects}

    def fork_opens(self, branch: str, *, is_deleted: bool = False) -> None:
        """A fork's own pull request from a branch of this name, listed before the others."""
        repo = None if is_deleted else {"full_name": "stranger/shop"}
        pull = {"number": 901, "head": branch, "base": "main", "title": "x", "body": "", "repo": repo, "project": 2}
        self.pulls.insert(0, pull)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    host: CodeHost

    def do_GET(self):
        self._serve("GET")

    def do_POST(self):
        self._serve("POST")

    def log_message(self, *args):
        pass

    def _serve(self, method: str):
        parts = urlsplit(self.path)
        raw = self._body()
        if "/api/" not in parts.path:
            self._git(method, parts, raw)
            return
        path, body = unquote(parts.path), json.loads(raw) if raw else None
        self.host.calls.append((method, path, body))
        status, told = self.host.fails or self.host.answer(method, path, parse_qs(parts.query), self.headers, body)
        self._send(status, json.dumps(told).encode(), [("Content-Type", "application/json")])

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _git(self, method: str, parts, raw: bytes):
        """Answer git by `git http-backend`; what needs a push asks for the token."""
        self.host.sent.append(self.headers.get("Authorization", ""))
        wanted = f"Basic {base64.b64encode(f'x-access-token:{TOKEN}'.encode()).decode()}"
        if (self.host.is_private or "receive-pack" in self.path) and self.headers.get("Authorization") != wanted:
            self._send(401, b"", [("WWW-Authenticate", 'Basic realm="test"')])
            return
        env = {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.host.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "REQUEST_METHOD": method,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(raw)),
            "REMOTE_USER": "test",
            "REMOTE_ADDR": "127.0.0.1",
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        done = subprocess.run(["git", "http-backend"], env=env, input=raw, capture_output=True, check=False)
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        headers = [tuple(line.split(": ", 1)) for line in head.decode().splitlines() if ": " in line]
        status = next((int(value.split()[0]) for name, value in headers if name == "Status"), 200)
        self._send(status, body, [(name, value) for name, value in headers if name != "Status"])

    def _send(self, status: int, body: bytes, headers: list):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

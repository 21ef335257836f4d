"""A code host on this machine: repositories over git's smart HTTP, and the answers of GitHub, GitLab or Gitea.

The shapes of requests and answers follow the hosts' API documents; each call is kept in `calls`.
"""

import base64
import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

TOKEN = "token-of-the-test"
PROBE = 4  # bytes of the request with which git asks for credentials before a large push


class CodeHost:
    """`kind`: github, gitlab or gitea. `root`: a folder of bare repositories that allow pushes.

    `is_private`: git asks for the token to read as well. `sent` has the credentials of each of git's requests.
    `branches` are those of a host without `root`. `requires_signin`: its version is for tokens only, as of Gitea with
    REQUIRE_SIGNIN_VIEW. `most`: entries of a page. The repository team/shop was called old/shop before.
    """

    def __init__(self, kind: str, root=None, *, is_private: bool = False):
        self.kind, self.root, self.is_private, self.sent = kind, root, is_private, []
        self.calls, self.pulls, self.fails = [], [], None
        self.fails_to: dict[str, tuple[int, object]] = {}  # {method: answer} of calls that change something
        self.branches, self.requires_signin, self.most = {"main": "c0ffee"}, False, 2
        self.lets_go = 0  # status with which it answers a push before git has taken it; -1: it hangs up
        self.at_work: list[threading.Thread] = []  # takes those pushes
        handler = type("Bound", (Handler,), {"host": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def site(self) -> str:
        return self.url.partition("://")[2]

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def tip(self, branch: str) -> str:
        """Return the commit of a branch, "" without one."""
        if self.root is None:
            return self.branches.get(branch, "")
        asked = ["git", "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}"]
        told = subprocess.run(asked, cwd=self.root / "team" / "shop.git", capture_output=True, text=True, check=False)
        return told.stdout.strip()

    def answer(self, method: str, path: str, query: dict, headers, body) -> tuple:
        """Return (status, JSON) of an API call, and headers if there are any."""
        if method in self.fails_to:
            return self.fails_to[method]
        return getattr(self, f"_{self.kind}")(method, path, query, headers, body)

    def _github(self, method, path, query, headers, body):
        if path == "/api/v3/meta":
            return 200, {"verifiable_password_authentication": True}
        if not path.startswith("/api/v3/repos/"):
            return 404, {"message": "Not Found"}
        if headers.get("Authorization") != f"Bearer {TOKEN}":
            return 401, {"message": "Bad credentials"}
        if path == "/api/v3/repos/old/shop" or path.startswith("/api/v3/repos/old/shop/"):
            return 307, {"message": "Moved"}, _moved(path, "repos/old", "repos/team", query)
        if not path.startswith("/api/v3/repos/team/shop"):
            return 404, {"message": "Not Found"}
        rest = path.removeprefix("/api/v3/repos/team/shop")
        if method == "GET" and not rest:
            return 200, {"default_branch": "main", "full_name": "team/shop"}
        if method == "GET" and rest.startswith("/branches/"):
            return self._branch(rest.removeprefix("/branches/"), "sha", {"message": "Branch not found"})
        if method == "GET":
            owner, _, branch = query["head"][0].partition(":")
            found = [pull for pull in self.pulls if pull["head"] == branch and owner == "team"]
            found = [pull for pull in found if query.get("base", [pull["base"]])[0] == pull["base"]]
            return self._page([self._shown(pull) for pull in found], path, query, "per_page")
        if method == "PATCH":
            return self._change(rest.removeprefix("/pulls/"), body)
        if not self.tip(body["base"]):
            why = {"resource": "PullRequest", "field": "base", "code": "invalid"}
            return 422, {"message": "Validation Failed", "errors": [why]}
        if self._is_open(body["head"], body["base"]):
            why = {"message": f"A pull request already exists for team:{body['head']}."}
            return 422, {"message": "Validation Failed", "errors": [why]}
        return 201, self._shown(self._new(body["head"], body["base"], body))

    def _gitea(self, method, path, query, headers, body):
        is_ours = headers.get("Authorization") == f"token {TOKEN}"
        if path == "/api/v1/version":
            if self.requires_signin and not is_ours:
                return 403, {"message": "Only signed in user is allowed to call APIs."}
            return 200, {"version": "1.22.0"}
        if path.startswith("/api/v1/repos/old/shop"):
            return 301, None, _moved(path, "repos/old", "repos/team", query)
        if not path.startswith("/api/v1/repos/team/shop"):
            return 404, {"message": "404 page not found"}
        if not is_ours:
            return 401, {"message": "token is required"}
        rest = path.removeprefix("/api/v1/repos/team/shop")
        if method == "GET" and not rest:
            return 200, {"default_branch": "main", "full_name": "team/shop"}
        if method == "GET" and rest.startswith("/branches/"):
            return self._branch(rest.removeprefix("/branches/"), "id", {"message": "The target couldn't be found."})
        if method == "GET":
            return self._page([self._shown(pull) for pull in self.pulls], path, query, "limit")
        if method == "PATCH":
            return self._change(rest.removeprefix("/pulls/"), body)
        if not self.tip(body["base"]):
            return 404, {"message": "The target couldn't be found."}
        if self._is_open(body["head"], body["base"]):
            return 409, {"message": "pull request already exists for these targets"}
        return 201, self._shown(self._new(body["head"], body["base"], body))

    def _gitlab(self, method, path, query, headers, body):
        if path == "/api/v1/version":
            return 404, None
        if headers.get("PRIVATE-TOKEN") != TOKEN:
            return 401, {"message": "401 Unauthorized"}
        if path == "/api/v4/version":
            return 200, {"version": "17.0.0"}
        if path.startswith("/api/v4/projects/old/shop"):
            return 301, None, _moved(path, "projects/old/shop", "projects/team%2Fshop", query)
        if not path.startswith("/api/v4/projects/team/shop"):
            return 404, {"message": "404 Project Not Found"}
        rest = path.removeprefix("/api/v4/projects/team/shop")
        if method == "GET" and not rest:
            return 200, {"default_branch": "main", "path_with_namespace": "team/shop"}
        if method == "GET" and rest.startswith("/repository/branches/"):
            return self._branch(rest.removeprefix("/repository/branches/"), "id", {"message": "404 Branch Not Found"})
        if method == "GET":
            found = [pull for pull in self.pulls if pull["head"] == query["source_branch"][0]]
            found = [pull for pull in found if query.get("target_branch", [pull["base"]])[0] == pull["base"]]
            return self._page([self._merge_request(pull) for pull in found], path, query, "per_page")
        if method == "PUT":
            renamed = {"body" if name == "description" else name: text for name, text in body.items()}
            return self._change(rest.removeprefix("/merge_requests/"), renamed)
        if self._is_open(body["source_branch"], body["target_branch"]):
            return 409, {"message": ["Another open merge request already exists for this source branch: !1"]}
        if not self.tip(body["target_branch"]):
            return 400, {"message": {"target_branch": ["does not exist"]}}
        made = self._new(body["source_branch"], body["target_branch"], body | {"body": body["description"]})
        return 201, self._merge_request(made)

    def _branch(self, name: str, called: str, missing: dict) -> tuple[int, dict]:
        tip = self.tip(name)
        return (200, {"name": name, "commit": {called: tip}}) if tip else (404, missing)

    def _page(self, rows: list, path: str, query: dict, size: str) -> tuple[int, list, dict]:
        """Return one page of a listing, with a Link to the next one as the hosts write it."""
        most, page = min(self.most, int(query.get(size, ["30"])[0])), int(query.get("page", ["1"])[0])
        link = f'<{self.url}{path}?page={page + 1}>; rel="next"' if page * most < len(rows) else ""
        return 200, rows[(page - 1) * most : page * most], {"Link": link} if link else {}

    def _is_open(self, head: str, base: str) -> bool:
        return any((pull["head"], pull["base"]) == (head, base) and "repo" not in pull for pull in self.pulls)

    def _change(self, number: str, body: dict) -> tuple[int, dict]:
        pull = next(pull for pull in self.pulls if pull["number"] == int(number))
        pull |= body
        return 200, {"number": pull["number"]}

    def _new(self, head: str, base: str, body: dict) -> dict:
        pull = {"number": len(self.pulls) + 1, "head": head, "base": base, "title": body["title"], "body": body["body"]}
        self.pulls.append(pull | ({"draft": True} if body.get("draft") else {}))
        return pull

    def _shown(self, pull: dict) -> dict:
        url = f"{self.url}/team/shop/pull/{pull['number']}"
        head = {"ref": pull["head"], "repo": pull.get("repo", {"full_name": "team/shop"})}
        base = {"ref": pull["base"], "repo": {"full_name": "team/shop"}}
        return {"number": pull["number"], "html_url": url, "head": head, "base": base, "title": pull["title"]}

    def _merge_request(self, pull: dict) -> dict:
        url = f"{self.url}/team/shop/-/merge_requests/{pull['number']}"
        projects = {"source_project_id": pull.get("project", 1), "target_project_id": 1}
        branches = {"source_branch": pull["head"], "target_branch": pull["base"]}
        return {"iid": pull["number"], "web_url": url, "title": pull["title"], **branches, **projects}

    def opens(self, head: str, base: str = "main") -> dict:
        """A pull request of this repository that somebody else opened."""
        return self._new(head, base, {"title": "theirs", "body": ""})

    def fork_opens(self, branch: str, *, is_deleted: bool = False) -> None:
        """A fork's own pull request from a branch of this name, listed before the others."""
        repo = None if is_deleted else {"full_name": "stranger/shop"}
        pull = {"number": 901, "head": branch, "base": "main", "title": "x", "body": "", "repo": repo, "project": 2}
        self.pulls.insert(0, pull)


def _backend(env: dict, raw: bytes) -> bytes:
    return subprocess.run(["git", "http-backend"], env=env, input=raw, capture_output=True, check=False).stdout


def _moved(path: str, former: str, now: str, query: dict) -> dict:
    return {"Location": f"{path.replace(former, now)}?{urlencode(query, doseq=True)}"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    host: CodeHost

    def do_GET(self):
        self._serve("GET")

    def do_POST(self):
        self._serve("POST")

    def do_PATCH(self):
        self._serve("PATCH")

    def do_PUT(self):
        self._serve("PUT")

    def do_DELETE(self):
        self._serve("DELETE")

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
        answer = self.host.fails or self.host.answer(method, path, parse_qs(parts.query), self.headers, body)
        status, told, *more = answer
        headers = [("Content-Type", "application/json"), *(more[0] if more else {}).items()]
        self._send(status, b"" if status == 204 else json.dumps(told).encode(), headers)

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
        if self.host.lets_go and method == "POST" and "receive-pack" in self.path and len(raw) > PROBE:
            self.host.at_work.append(threading.Thread(target=_backend, args=(env, raw)))
            self.host.at_work[-1].start()
            self.close_connection = True
            if self.host.lets_go > 0:
                self._send(self.host.lets_go, b"", [])
            return
        head, _, body = _backend(env, raw).partition(b"\r\n\r\n")
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

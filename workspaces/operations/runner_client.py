"""Client of this host's runner for the web process and management commands: HTTP over its unix socket.

Access to the socket is the authentication: only Handrail's own user can open its folder.
"""

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import closing, nullcontext
from itertools import chain
from urllib.parse import urlencode

from dashboard.database.threads import standing_aside
from dashboard.problems import Problem, unavailable
from workspaces.host import paths

PIECE = 1 << 18  # bytes read at once
SHORT = 5  # seconds; who would wait longer stands aside meanwhile
_AWAY = "The runner does not answer; files and programs can't be reached until it is running (make up)."


def socket_path() -> str:
    return str(paths.runtime() / "runner.sock")


class _UnixConnection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(socket_path())


def _target(path: str, query: dict) -> str:
    return f"{path}?{urlencode({k: v for k, v in query.items() if v is not None})}"


def _problem(status: int, body: bytes) -> Problem:
    try:
        told = json.loads(body)
        return Problem(status, told.pop("detail"), **told)
    except (ValueError, KeyError, AttributeError, TypeError):
        return unavailable("The runner sent an invalid response.")


def call(method: str, path: str, /, *, body: bytes | None = None, timeout: float = 120, **query) -> bytes:
    """Send a request and return the whole response body. Raises the runner's Problem, or 503 if it does not answer."""
    with standing_aside() if timeout > SHORT else nullcontext():
        return b"".join(_answer(method, path, query, body, timeout))


def pieces(path: str, /, *, timeout: float = 120, **query) -> Iterator[bytes]:
    """GET a response as an iterator of bytes. Problems are raised now, before the first piece."""
    answer = _answer("GET", path, query, None, timeout)
    first = next(answer, b"")
    return chain([first], answer)


def _answer(method, path, query, body, timeout) -> Iterator[bytes]:
    with closing(_UnixConnection("runner", timeout=timeout)) as connection:
        try:
            connection.request(method, _target(path, query), body=body)
            response = connection.getresponse()
            if response.status >= 400:
                raise _problem(response.status, response.read())
            while piece := response.read(PIECE):
                yield piece
        except TimeoutError as error:
            raise unavailable("The runner did not answer in time; it may be busy. Try again.") from error
        except (OSError, http.client.HTTPException) as error:
            raise unavailable(_AWAY) from error


def ask(method: str, path: str, /, **rest):
    """Like `call`, for JSON responses."""
    return json.loads(call(method, path, **rest))

"""How web and commands reach the runner of this host: HTTP over its unix socket.

The socket lies in a folder that only Handrail's own user can open; that is the authentication.
"""

import http.client
import json
import socket
from collections.abc import AsyncIterator
from urllib.parse import urlencode

import aiohttp

from dashboard.problems import Problem, unavailable
from workspaces import places

_AWAY = "The runner does not answer; files and programs cannot be reached until it is back. `make up` starts it."


def socket_path() -> str:
    return str(places.runtime() / "runner.sock")


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
        return unavailable("The runner gave an answer that makes no sense.")


def call(method: str, path: str, /, *, body: bytes | None = None, timeout: float = 120, **query) -> bytes:
    """One request, the whole answer. Raises Problem: what the runner said, or 503 when it is away."""
    connection = _UnixConnection("runner", timeout=timeout)
    try:
        connection.request(method, _target(path, query), body=body)
        response = connection.getresponse()
        answer = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise unavailable(_AWAY) from error
    finally:
        connection.close()
    if response.status >= 400:
        raise _problem(response.status, answer)
    return answer


def ask(method: str, path: str, /, **rest):
    """`call` for JSON answers."""
    return json.loads(call(method, path, **rest))


async def stream(path: str, /, **query) -> AsyncIterator[bytes]:
    """The answer's bytes as they come. Problems are raised before the first byte."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(socket_path()), timeout=timeout) as session:
        try:
            async with session.get(f"http://runner{_target(path, query)}") as response:
                if response.status >= 400:
                    raise _problem(response.status, await response.read())
                yield b""  # the answer has begun: whoever asked may send its headers
                async for chunk in response.content.iter_any():
                    yield chunk
        except aiohttp.ClientError as error:
            raise unavailable(_AWAY) from error

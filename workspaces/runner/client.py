"""How web and commands reach the runner of this host: HTTP over its unix socket.

The socket lies in a folder that only Handrail's own user can open; that is the authentication.
"""

import asyncio
import http.client
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from importlib import import_module
from itertools import chain
from urllib.parse import urlencode

from dashboard.problems import Problem, unavailable
from workspaces import places

PIECE = 1 << 18  # bytes read at once
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
    return b"".join(_answer(method, path, query, body, timeout))


def pieces(path: str, /, *, timeout: float = 120, **query) -> Iterator[bytes]:
    """The answer to a GET as it comes, for whoever hands it on. Problems are raised now, before the first piece."""
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
            raise unavailable("The runner does not answer in time; it may have much to do. Try again.") from error
        except (OSError, http.client.HTTPException) as error:
            raise unavailable(_AWAY) from error


def ask(method: str, path: str, /, **rest):
    """`call` for JSON answers."""
    return json.loads(call(method, path, **rest))


async def stream(path: str, /, **query) -> AsyncIterator[bytes]:
    """The answer's bytes as they come. Problems are raised before the first byte."""
    # For web's first stream, and beside its loop; whoever only asks starts without it.
    aiohttp = await asyncio.to_thread(import_module, "aiohttp")
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

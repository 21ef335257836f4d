"""HTTP requests to the desk, with the standard library. An incomplete or unexpected answer is an error."""

import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from urllib.parse import quote, urlencode, urlsplit

from handrail_client import json_text
from handrail_client.connection import Connection
from handrail_client.errors import NotNow, Refused, Unreachable

TIMEOUT = 60  # seconds for an answer, beyond what a request asks the desk to wait
LOCAL = ("127.0.0.1", "localhost", "::1")
PIECE = 1 << 20
# Raised by urllib and http.client when a connection fails or breaks off, or when the bytes are not HTTP.
BROKEN = (OSError, http.client.HTTPException, ValueError)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A desk's API redirects nothing, and a token must not follow a redirect to another host."""

    def redirect_request(self, *args):
        return None


class Http:
    """Requests to the API of one desk, with one token."""

    def __init__(self, connection: Connection, *, timeout: float = TIMEOUT):
        self.connection, self.timeout = connection, timeout
        self._api = connection.url.rstrip("/") + "/api/v1"
        proxies = [urllib.request.ProxyHandler({})] if urlsplit(self._api).hostname in LOCAL else []
        self._opener = urllib.request.build_opener(_NoRedirect, *proxies)

    def get(self, path: str, /, *, wait: float = 0, **query) -> dict:
        """Return the JSON object at the path; `wait` is how long the desk may hold the request."""
        asked = {name: value for name, value in query.items() if value not in (None, "")}
        return self.json("GET", path, query=asked | ({"wait": wait} if wait else {}), wait=wait)

    def post(self, path: str, body: dict | None = None, *, key: str | None = None) -> dict:
        return self.json("POST", path, {} if body is None else body, key=key)

    def json(self, method: str, path: str, body=None, *, query=(), key: str | None = None, wait: float = 0) -> dict:
        """Send JSON, or bytes or a file as they are, and return the JSON object that comes back.

        Refused: the desk says no. Unreachable: no desk answered, or nothing that can be read.
        """
        with self._opened(method, path, body, query=query, key=key, wait=wait) as answer:
            try:
                told = json_text.loads(answer.read())
            except BROKEN as error:
                raise Unreachable(f"The answer to {method} {path} can't be read: {error!r}") from None
        if not isinstance(told, dict):
            raise Unreachable(f"The answer to {method} {path} is no JSON object.")
        return told

    def pieces(self, path: str, **query) -> Iterator[bytes]:
        """Yield the bytes at the path, in pieces, as they arrive."""
        with self._opened("GET", path, query=query) as answer:
            try:
                while piece := answer.read1(PIECE):
                    yield piece
            except BROKEN as error:
                raise Unreachable(f"{path} broke off: {error!r}") from None

    def _opened(self, method: str, path: str, body=None, *, query=(), key=None, wait=0):
        address = self._api + quote(os.fsencode(path), safe="/") + (f"?{urlencode(query, doseq=True)}" if query else "")
        request = urllib.request.Request(address, _bytes_of(body), method=method)
        for name, value in self._headers(body, key).items():
            request.add_header(name, value)
        try:
            return self._opener.open(request, timeout=self.timeout + wait)
        except urllib.error.HTTPError as refused:
            with refused:
                raise _error_of(refused, f"{method} {path}") from None
        except BROKEN as error:
            reason = getattr(error, "reason", error)
            raise Unreachable(f"No desk answers at {self.connection.url}: {reason}") from None

    def _headers(self, body, key: str | None) -> dict[str, str]:
        headers = {"Authorization": f"Bearer {self.connection.token}", "Accept": "*/*"}
        if body is not None:
            headers["Content-Type"] = "application/json" if isinstance(body, dict) else "application/octet-stream"
        if hasattr(body, "seek"):
            headers["Content-Length"] = str(_length_of(body))
        if key is not None:
            headers["Idempotency-Key"] = key
        return headers


def _bytes_of(body):
    return json_text.dumps(body, allow_nan=False).encode() if isinstance(body, dict) else body


def _length_of(file) -> int:
    length = file.seek(0, 2)
    file.seek(0)
    return length


def _error_of(answer: urllib.error.HTTPError, what: str) -> Exception:
    """Return Refused if the desk refused the request; Unreachable if the error may pass or no desk answered."""
    try:
        told = json_text.loads(answer.read())
    except BROKEN:
        told = None
    is_problem = isinstance(told, dict) and isinstance(told.get("detail"), str)
    words = told["detail"] if is_problem else f"{what} was answered {answer.code}, and by no desk."
    if answer.code in (400, 401, 403, 404, 405, 409, 410, 413, 415, 422) and is_problem:
        return Refused(answer.code, told)
    if answer.code == 503 and is_problem and answer.headers["Retry-After"]:
        return NotNow(f"{words} ({answer.code})")
    return Unreachable(f"{words} ({answer.code})" if is_problem else words)

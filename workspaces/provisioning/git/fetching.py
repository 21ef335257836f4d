"""HTTP for a source, outside of its workspace: only checked addresses, no cookies, limits of time."""

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import urljoin

from dashboard.net import outbound
from workspaces.provisioning.git.addresses import Git, check_git
from workspaces.provisioning.git.running import CloneFailed
from workspaces.store import Cancelled

SECONDS = 30  # without a byte
PIECE = 1 << 16
_LOOK_SECONDS = 0.2  # interval between checks for the deadline and a cancellation
REDIRECTS = 3
LEADS_ON = (301, 302, 303, 307, 308)


@dataclass
class Ending:
    """What ends all requests for a source: a time of the monotonic clock, or the setting of `cancel`."""

    until: float
    cancel: threading.Event | None = None

    @property
    def is_due(self) -> bool:
        return time.monotonic() > self.until or (self.cancel is not None and self.cancel.is_set())

    def check(self) -> None:
        """Raise Cancelled or CloneFailed when it is due."""
        if self.cancel is not None and self.cancel.is_set():
            raise Cancelled("cancelled while files were pulled")
        if self.is_due:
            raise CloneFailed("The files took longer than their limit of time.")


class _Pinned(http.client.HTTPConnection):
    """A connection that contacts the checked addresses only, whatever the name leads to by now."""

    def __init__(self, source: Git, ending: Ending):
        super().__init__(source.host, source.port, timeout=SECONDS)
        self.source, self.ending = source, ending
        self.held: socket.socket | None = None  # http.client forgets `sock` when the response is the last one

    def connect(self):
        self.ending.check()
        plain = outbound.connect(self.source.host, self.port, self.timeout, addresses=self.source.pinned)
        self.sock = self.held = plain
        if self.source.scheme != "https":
            return
        if isinstance(plain, ssl.SSLSocket):  # of a proxy, which stays what is shut
            self.sock = outbound.wrapped(plain, self.source.host)
            return
        self.sock = self.held = outbound.wrapped(plain, self.source.host, do_handshake_on_connect=False)
        self.sock.do_handshake()

    def shut(self) -> None:
        """End what another thread sends or reads here."""
        if self.held is not None:
            with suppress(OSError):
                socket.socket.shutdown(self.held, socket.SHUT_RDWR)  # that of TLS would read on in plain text


def checked(address: str) -> Git:
    """Return the checked address; CloneFailed or Problem unless it is one of http(s) that may be contacted."""
    if not isinstance(address, str) or not address.lower().startswith(("http://", "https://")):
        raise CloneFailed("It is at no address of http or https.")
    return check_git(address)


def is_same_origin(one: Git, other: Git) -> bool:
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


@contextmanager
def requested(
    source: Git, method: str, headers: dict[str, str], ending: Ending, body: bytes | None = None
) -> Iterator[http.client.HTTPResponse]:
    """Yield the response of one request. CloneFailed if there is none, or if reading it fails; see `Ending`."""
    connection = _Pinned(source, ending)
    plain = {"User-Agent": "handrail", "Accept-Encoding": "identity"}
    try:
        with _shut_when_due(connection, ending):
            connection.request(method, source.path, body, plain | headers)
            yield connection.getresponse()
    except (OSError, http.client.HTTPException, ValueError) as error:
        ending.check()
        raise CloneFailed(f"{source.host} did not answer: {str(error)[:200] or type(error).__name__}.") from None
    finally:
        with suppress(OSError):
            connection.close()


@contextmanager
def _shut_when_due(connection: _Pinned, ending: Ending) -> Iterator[None]:
    """Shut the connection when the ending is due, also while its host sends one byte at a time."""
    done = threading.Event()

    def watch():
        while not done.wait(_LOOK_SECONDS):
            if ending.is_due:
                connection.shut()

    watching = threading.Thread(target=watch, name="git-lfs", daemon=True)
    watching.start()
    try:
        yield
    finally:
        done.set()
        watching.join()


@contextmanager
def downloaded(source: Git, headers: dict[str, str], ending: Ending) -> Iterator[http.client.HTTPResponse]:
    """Yield the response with the content; a redirect is followed to a checked address, elsewhere without `headers`."""
    for _ in range(REDIRECTS + 1):
        with requested(source, "GET", headers, ending) as response:
            if response.status == 200:
                yield response
                return
            if response.status not in LEADS_ON:
                raise CloneFailed(f"{source.host} answered {response.status} for its content.")
            further = checked(urljoin(source.address, response.getheader("Location") or ""))
        refuse_downgrade(source, further)
        headers = headers if is_same_origin(source, further) else {}
        source = further
    raise CloneFailed(f"{source.host} leads on more than {REDIRECTS} times.")


def refuse_downgrade(source: Git, further: Git) -> None:
    if source.scheme == "https" and further.scheme == "http":
        raise CloneFailed(f"{source.host} leads to {further.host} without TLS.")


def pieces(read: Callable[[int], bytes], ending: Ending) -> Iterator[bytes]:
    """Yield what `read(size)` returns, until nothing is left."""
    while True:
        piece = read(PIECE)
        ending.check()
        if not piece:
            return
        yield piece


def at_most(limit: int, response: http.client.HTTPResponse, ending: Ending) -> bytes:
    """Return the body; CloneFailed for a longer one."""
    body = bytearray()
    for piece in pieces(response.read1, ending):
        body += piece
        if len(body) > limit:
            raise CloneFailed(f"The answer has more than {limit:,} bytes.")
    return bytes(body)

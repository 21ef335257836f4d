"""HTTP for a source, outside of its workspace: only checked addresses, no proxy, no cookies, limits of time."""

import http.client
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urljoin

from workspaces.provisioning.git.addresses import Git, check_git
from workspaces.provisioning.git.running import CloneFailed
from workspaces.store import Cancelled

SECONDS = 30  # without a byte
REDIRECTS = 3
LEADS_ON = (301, 302, 303, 307, 308)


class _Pinned(http.client.HTTPConnection):
    """A connection that contacts the checked addresses only, whatever the name leads to by now."""

    def __init__(self, source: Git):
        super().__init__(source.host, source.port, timeout=SECONDS)
        self.source = source

    def connect(self):
        error = OSError("it has no address")
        for address in self.source.pinned:
            try:
                self.sock = socket.create_connection((address, self.port), self.timeout)
                break
            except OSError as refused:
                error = refused
        else:
            raise error
        if self.source.scheme == "https":
            tls = ssl.create_default_context()
            self.sock = tls.wrap_socket(self.sock, server_hostname=self.source.host)


def checked(address: str) -> Git:
    """Return the checked address; CloneFailed or Problem unless it is one of http(s) that may be contacted."""
    if not isinstance(address, str) or not address.lower().startswith(("http://", "https://")):
        raise CloneFailed("It is at no address of http or https.")
    return check_git(address)


def is_same_origin(one: Git, other: Git) -> bool:
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


@contextmanager
def requested(
    source: Git, method: str, headers: dict[str, str], body: bytes | None = None
) -> Iterator[http.client.HTTPResponse]:
    """Yield the response of one request. CloneFailed if there is none, or if reading it fails."""
    connection = _Pinned(source)
    plain = {"User-Agent": "handrail", "Accept-Encoding": "identity"}
    try:
        connection.request(method, source.path, body, plain | headers)
        yield connection.getresponse()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise CloneFailed(f"{source.host} did not answer: {str(error)[:200] or type(error).__name__}.") from None
    finally:
        with suppress(OSError):
            connection.close()


@contextmanager
def downloaded(source: Git, headers: dict[str, str]) -> Iterator[http.client.HTTPResponse]:
    """Yield the response with the content; a redirect is followed to a checked address, elsewhere without `headers`."""
    for _ in range(REDIRECTS + 1):
        with requested(source, "GET", headers) as response:
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


def pieces(response: http.client.HTTPResponse, cancel: threading.Event | None) -> Iterator[bytes]:
    """Yield the body. Setting `cancel` raises Cancelled."""
    while piece := response.read(1 << 16):
        if cancel is not None and cancel.is_set():
            raise Cancelled("cancelled while files were pulled")
        yield piece

"""Who acts for a workspace: the runner of this host, over its unix socket, or that of another one, over TLS."""

import asyncio
import socket
import ssl
import threading
import time
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings

from dashboard.database.threads import query_in_thread
from dashboard.problems import unavailable
from workspaces.host.membership import in_words, membership
from workspaces.models import Runner

KNOWN_FOR_S = 5.0  # how long an address is not looked up again
SILENT_FOR_S = 1.0  # how long nobody tries again to reach a host that did not answer
CONNECT_S = 5.0  # a host that does not accept a connection for so long is unreachable
UPGRADE = "handrail-stream"  # the protocol to which a connection changes that is passed on to a socket of the host


class Unreachable(Exception):
    """The lead's host cannot be reached, or refuses this one; the text is a clause that says why."""


@dataclass(frozen=True)
class Lead:
    """A runner of another host."""

    runner: str  # the id of its row
    host: str
    address: str  # host:port; "" if it serves its own host alone

    @property
    def place(self) -> tuple[str, int]:
        host, _, port = self.address.rpartition(":")
        return host.strip("[]"), int(port)


# {(the name of this host, id of a row): (until when this is known, its lead; None for this host's own)}
_known: dict[tuple[str, UUID], tuple[float, Lead | None]] = {}
_silent: dict[Lead, tuple[float, str]] = {}  # hosts that could not be reached: (until when nobody tries, why)


def lead_of(workspace) -> Lead | None:
    """Return the other host's runner that acts for the workspace; None if this host's does, or none was chosen yet.

    In a coroutine, the workspace must have been loaded with `runner`.
    """
    if workspace.runner_id is None:
        return None
    until, lead = _known.get((settings.HANDRAIL_HOST_NAME, workspace.runner_id), (0.0, None))
    return lead if time.monotonic() < until else of_row(workspace.runner)


def of_row(row: Runner) -> Lead | None:
    """Return the lead that a runner's row describes; None if it is the one of this host."""
    own = settings.HANDRAIL_HOST_NAME
    lead = None if row.host == own else Lead(str(row.pk), row.host, row.address)
    _known[own, row.pk] = float("inf") if lead is None else time.monotonic() + KNOWN_FOR_S, lead
    return lead


def others(part: str = "runner") -> list[Lead]:
    """Return the runners of other hosts that can be asked now; with `part`, of hosts that also run that."""
    rows = Runner.objects.alive().exclude(address="").order_by("host")
    return [lead for row in rows if part in (*row.parts, "runner") and (lead := of_row(row)) is not None]


def of_team(store_host: str) -> Lead | None:
    """Return the runner for work on a team's store: the one of the host that has it, else this host's or any other.

    Problem 503 if none can be asked.
    """
    if store_host and (row := Runner.objects.filter(host=store_host).first()) is not None:
        return of_row(row)
    if "runner" in settings.HANDRAIL_PARTS:
        return None
    if not (found := others()):
        raise unavailable("No host with a runner can be reached now. Try again.")
    return found[0]


def is_here(workspace) -> bool:
    """Return whether this host's runner acts for the workspace. In a coroutine, load it with `runner`."""
    return lead_of(workspace) is None


def connect(lead: Lead, timeout: float) -> ssl.SSLSocket:
    """Connect to a lead and verify that it is the one. Raise Unreachable."""
    _refuse_silent(lead)
    context = membership.contexts().client
    try:
        bare = socket.create_connection(lead.place, timeout=min(timeout, CONNECT_S))
    except OSError as error:
        raise _silence(lead, error) from error
    try:
        bare.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        secured = context.wrap_socket(bare)
        refused = membership.refusal(secured.getpeercert(), expected=lead.runner)
    except OSError as error:
        bare.close()
        raise _silence(lead, error) from error
    if refused:
        secured.close()
        raise Unreachable(refused)
    secured.settimeout(timeout)
    return secured


async def open_stream(lead: Lead, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return a connection to what `path` of a lead's API serves as a stream. Raise Unreachable."""
    _refuse_silent(lead)
    context = (await query_in_thread(membership.contexts)).client
    host, port = lead.place
    try:
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
    except OSError as error:  # TimeoutError is one
        raise _silence(lead, error) from error
    try:
        await _upgrade(lead, path, reader, writer)
    except BaseException as error:
        writer.close()
        if isinstance(error, (OSError, EOFError, asyncio.LimitOverrunError)):
            raise Unreachable(_why(error)) from error
        raise
    return reader, writer


async def _upgrade(lead: Lead, path: str, reader, writer):
    verified = writer.get_extra_info("peercert")
    if refused := await query_in_thread(membership.refusal, verified, expected=lead.runner):
        raise Unreachable(refused)
    asked = f"GET {path} HTTP/1.1\r\nHost: {lead.host}\r\nConnection: Upgrade\r\nUpgrade: {UPGRADE}\r\n\r\n"
    writer.write(asked.encode())
    async with asyncio.timeout(CONNECT_S):
        head = await reader.readuntil(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0].decode("latin-1")
    if status.split(" ")[1:2] != ["101"]:
        raise Unreachable(f"it answered {status}")


def _refuse_silent(lead: Lead):
    until, why = _silent.get(lead, (0.0, ""))
    if time.monotonic() < until:
        raise Unreachable(why)


def _silence(lead: Lead, error: OSError) -> Unreachable:
    """Note that the host cannot be reached, so that a page with fifty questions to it waits once."""
    why = _why(error)
    _silent[lead] = time.monotonic() + SILENT_FOR_S, why
    return Unreachable(why)


def _why(error: Exception) -> str:
    """Return why a connection failed, as a clause."""
    if isinstance(error, ssl.SSLError):
        return in_words(error)
    if isinstance(error, TimeoutError):
        return "it does not answer"
    return (getattr(error, "strerror", None) or str(error) or "the connection broke").lower()


class Pool:
    """Open connections to leads that nobody uses now. Each is used by one thread at a time."""

    IDLE_S = 30.0  # the runner closes what was idle for longer (aiohttp: 75 s)
    LASTS_S = 3600.0  # a certificate is shown once for each connection, and lasts for a day
    MOST = 16  # for each address

    def __init__(self):
        self._idle: dict[Lead, list[tuple[float, float, object]]] = {}
        self._lock = threading.Lock()

    def take(self, lead: Lead):
        """Return (a connection, when it was opened), or None."""
        now = time.monotonic()
        with self._lock:
            idle = self._idle.get(lead, [])
            while idle:
                opened_at, used_at, found = idle.pop()
                if now - used_at < self.IDLE_S and now - opened_at < self.LASTS_S and _is_quiet(found.sock):
                    return found, opened_at
                found.close()
        return None

    def give_back(self, lead: Lead, found, opened_at: float):
        with self._lock:
            idle = self._idle.setdefault(lead, [])
            if len(idle) < self.MOST:
                idle.append((opened_at, time.monotonic(), found))
                return
        found.close()


def _is_quiet(sock) -> bool:
    """Return whether the connection is open and nothing has arrived: an end would be readable."""
    try:
        sock.setblocking(False)
        try:
            sock.recv(1)
        except (ssl.SSLWantReadError, BlockingIOError):
            return True
        return False
    except OSError:
        return False

"""Client of runners for web, queue and management commands: HTTP to the runner that acts for a workspace.

The one of this host is reached over its unix socket, where access to the socket is the authentication: only Handrail's
own user can open its folder. One of another host is reached over TLS (host/leads.py). A runner that does not act for
the workspace names the one that does, and is believed once.
"""

import http.client
import json
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import chain
from urllib.parse import urlencode

from dashboard.database.threads import standing_aside
from dashboard.problems import Problem, unavailable
from workspaces.host import leads, paths
from workspaces.host.leads import Lead
from workspaces.host.membership import in_words

PIECE = 1 << 18  # bytes read at once
SHORT = 5  # seconds; who would wait longer stands aside meanwhile
ELSEWHERE = 421  # the runner does not act for the workspace; `lead` in the answer says who does
NOT_MEMBER = "not_a_member"  # the code of a refusal to speak with this host at all
_AWAY = "The runner does not answer; files and programs can't be reached until it is running (make up)."
_pool = leads.Pool()


def socket_path() -> str:
    return str(paths.runtime() / "runner.sock")


class _Connection(http.client.HTTPConnection):
    """A connection to this host's runner, or to a lead."""

    def __init__(self, lead: Lead | None, timeout: float):
        super().__init__("runner" if lead is None else lead.host, timeout=timeout)
        self._lead = lead

    def connect(self):
        if self._lead is not None:
            self.sock = leads.connect(self._lead, self.timeout)
            return
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(socket_path())


class _Elsewhere(Exception):
    """Another runner acts for the workspace."""

    def __init__(self, lead: Lead | None, problem: Problem):
        super().__init__(problem.detail)
        self.lead, self.problem = lead, problem


def call(method: str, workspace, what: str, /, *, body: bytes | None = None, timeout: float = 120, **query) -> bytes:
    """Ask the lead of a workspace for `what`, such as "file/size", and return the whole response body.

    Raises the runner's Problem, or 503 if it does not answer: code `elsewhere` if its host has no address, code
    `unreachable` if that does not answer.
    """
    with standing_aside() if timeout > SHORT else nullcontext():
        return b"".join(_of_lead(method, workspace, what, query, body, timeout))


def ask(method: str, workspace, what: str, /, **rest):
    """Like `call`, for JSON responses."""
    return json.loads(call(method, workspace, what, **rest))


def pieces(workspace, what: str, /, *, timeout: float = 120, **query) -> Iterator[bytes]:
    """GET a response as an iterator of bytes. Problems are raised now, before the first piece."""
    answer = _of_lead("GET", workspace, what, query, None, timeout)
    first = next(answer, b"")
    return chain([first], answer)


def ask_runner(
    method: str, lead: Lead | None, path: str, /, *, body: bytes | None = None, timeout: float = 120, **query
):
    """Ask one runner (None: this host's) for what is of no workspace; return its JSON. Raises Problem."""
    with standing_aside() if timeout > SHORT else nullcontext():
        return json.loads(b"".join(_answer(lead, method, _target(path, query), body, timeout)))


def pieces_of_runner(lead: Lead | None, path: str, /, *, timeout: float = 120, **query) -> Iterator[bytes]:
    """GET what is of no workspace from one runner, as `pieces` does."""
    answer = _answer(lead, "GET", _target(path, query), None, timeout)
    first = next(answer, b"")
    return chain([first], answer)


def _of_lead(method, workspace, what, query, body, timeout) -> Iterator[bytes]:
    """Ask the lead; ask again whom it names, once."""
    target = _target(f"/workspaces/{workspace.pk}/{what}", query)
    lead = leads.lead_of(workspace)
    if lead is not None and not lead.address:
        raise elsewhere(workspace, lead)
    try:
        yield from _answer(lead, method, target, body, timeout)
        return
    except _Elsewhere as moved:
        if moved.lead is None or moved.lead == lead:
            raise moved.problem from None
        lead = moved.lead
    if not lead.address:
        raise elsewhere(workspace, lead)
    try:
        yield from _answer(lead, method, target, body, timeout)
    except _Elsewhere as moved:
        raise moved.problem from None


def elsewhere(workspace, lead: Lead) -> Problem:
    """Return the refusal of what is on a host without an address."""
    return unavailable(
        f"{workspace.key} is on {lead.host}, which this address cannot reach.", code="elsewhere", host=lead.host
    )


def unreachable(lead: Lead, why: str) -> Problem:
    """Return the refusal of what is on a host that cannot be reached now; `why` is a clause or a sentence."""
    return unavailable(
        f"{lead.host} cannot be reached: {why.rstrip('.')}. Nothing is lost and nothing was changed.",
        code="unreachable",
        host=lead.host,
    )


def _target(path: str, query: dict) -> str:
    return f"{path}?{urlencode({k: v for k, v in query.items() if v is not None})}"


def _answer(lead: Lead | None, method: str, target: str, body, timeout: float) -> Iterator[bytes]:
    """Yield the response. A connection to a lead is kept for the next request once all of it was read."""
    connection, opened_at = _connection(lead, timeout)
    kept = False
    try:
        connection.request(method, target, body=body)
        response = connection.getresponse()
        if response.status >= 400:
            body = response.read()
            kept = lead is not None and not response.will_close
            _refuse(lead, response.status, body)
        while piece := response.read(PIECE):
            yield piece
        kept = lead is not None and not response.will_close
    except leads.Unreachable as error:
        raise unreachable(lead, str(error)) from error
    except TimeoutError as error:
        raise unavailable("The runner did not answer in time; it may be busy. Try again.") from error
    except ssl.SSLError as error:
        raise unreachable(lead, in_words(error)) from error
    except (OSError, http.client.HTTPException) as error:
        raise (unavailable(_AWAY) if lead is None else unreachable(lead, "the connection broke")) from error
    finally:
        if kept:
            _pool.give_back(lead, connection, opened_at)
        else:
            connection.close()


def _connection(lead: Lead | None, timeout: float) -> tuple[_Connection, float]:
    if lead is not None and (idle := _pool.take(lead)):
        idle[0].timeout = timeout
        idle[0].sock.settimeout(timeout)
        return idle
    return _Connection(lead, timeout), time.monotonic()


def _refuse(lead: Lead | None, status: int, body: bytes):
    """Raise the refusal that a runner answered with."""
    try:
        told = json.loads(body)
        problem = Problem(status, told.pop("detail"), **told)
    except (ValueError, KeyError, AttributeError, TypeError):
        raise unavailable("The runner sent an invalid response.") from None
    if status == ELSEWHERE:
        named = problem.extra.pop("lead", None)
        problem.status = 503
        raise _Elsewhere(Lead(**named) if named else None, problem)
    if problem.extra.get("code") == NOT_MEMBER and lead is not None:
        raise unreachable(lead, f"it refuses this host. {problem.detail}")
    raise problem

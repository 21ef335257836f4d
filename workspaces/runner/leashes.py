"""The credentials and rules by method of one Run, for the egress proxy (workspaces/egress/request_gate.py)."""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from dashboard.files.atomic_write import replace_file
from dashboard.net import outbound
from dashboard.net.trust import for_java, with_more
from dashboard.net.upstream import Upstream
from dashboard.problems import Problem
from workspaces import extensions
from workspaces.drivers.base import DriverError
from workspaces.egress import authority
from workspaces.egress.answers import Refused
from workspaces.egress.http_rules import Line, scopes_at
from workspaces.egress.leash import Leashed
from workspaces.egress.request_gate import Opening, Use, is_gone
from workspaces.host import paths
from workspaces.models import Workspace
from workspaces.secrets import credentials
from workspaces.services import network
from workspaces.shim.redact import Redactor

KNOWN_SECONDS = 1.0  # a credential that was deleted is used for so long at most
LOOK_SECONDS = 0.5  # interval between looks for an answer
MOST_QUERY = 2000  # characters of a query that a card shows
# Below /etc: this machine's authorities and the workspace's own, the latter alone, and both for Java.
TRUSTED, OWN, OF_JAVA = "handrail/trust.pem", "handrail/authority.pem", "handrail/trust.p12"
# Variables by which programs find all authorities; Node and Deno take what is added to their own.
VARIABLES = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
    "NPM_CONFIG_CAFILE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
)
ADDED = ("NODE_EXTRA_CA_CERTS", "DENO_CERT")
# Java reads neither those nor the variables of a proxy.
JAVA = {
    "javax.net.ssl.trustStore": f"/etc/{OF_JAVA}",
    "javax.net.ssl.trustStoreType": "PKCS12",
    **{f"{scheme}.proxyHost": "127.0.0.1" for scheme in ("http", "https")},
    **{f"{scheme}.proxyPort": "3128" for scheme in ("http", "https")},
    "http.nonProxyHosts": "localhost|127.*|[::1]|0.0.0.0|handrail.internal",
}


def file_of(workspace) -> Path:
    """Return where the workspace's authority is, with its key: never in the workspace."""
    return paths.folder_of(workspace.pk) / "authority.pem"


def authority_of(workspace) -> str:
    """Return the workspace's authority as PEM, with its key; "" if it has none."""
    file = file_of(workspace)
    return file.read_text() if file.exists() else ""


def set_authority(workspace, content: str):
    """Have the authority that a Run of another host trusts, or none (""), in place of one that was made here."""
    if content:
        replace_file(file_of(workspace), content.encode())
    else:
        file_of(workspace).unlink(missing_ok=True)


def upstream_of(workspace) -> Upstream:
    """Return the proxy by which a workspace leaves. Raise DriverError where this host does not have it."""
    name = workspace.environment.upstream
    try:
        return outbound.upstream_of(name)
    except KeyError:
        raise DriverError(f"Its environment names the proxy {name}, which HANDRAIL_UPSTREAMS lacks here.") from None


def trust_of(workspace) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return (files below /etc, variables) with which a new Run trusts what the proxy opens; nothing without need.

    That is where a credential names the workspace's environment, where its list has methods, and where a company's own
    authorities are set.
    """
    more = []
    if credentials.of_workspace(workspace) or any(line.scope for line in network.lines(workspace.environment, "agent")):
        authority.make(file_of(workspace))
        more.append(authority.Authority(file_of(workspace)).certificate)
    if company := upstream_of(workspace).authorities:
        more.append(Path(company).read_bytes())
    if not more:
        return {}, {}
    whole = with_more(*more)
    files = {TRUSTED: whole, OWN: b"\n".join(more), OF_JAVA: for_java(whole)}
    java = {"JAVA_TOOL_OPTIONS": " ".join(f"-D{name}={value}" for name, value in JAVA.items())}
    return files, dict.fromkeys(VARIABLES, f"/etc/{TRUSTED}") | dict.fromkeys(ADDED, f"/etc/{OWN}") | java


class RunLeashes:
    """The credentials and rules by method of one Run; implements egress.request_gate.Leashes."""

    def __init__(self, daemon, workspace_id, run_id, upstream: Upstream):
        self.daemon, self.workspace_id, self.run_id = daemon, workspace_id, str(run_id)
        self.tls = partial(outbound.tls, upstream)
        self._authority: authority.Authority | None = None
        self._known: list[Leashed] = []
        self._lines: list[Line] = []
        self._until = 0.0
        self._scrubber: tuple[tuple, Redactor] | None = None  # of the newest values
        self._asking: dict[tuple, _Asked] = {}  # by host and method, for requests without a credential

    @property
    def authority(self) -> authority.Authority:
        return self._authority

    async def at(self, host: str, port: int) -> Opening:
        if time.monotonic() >= self._until:
            self._known, self._lines = await self.daemon.thread(self._read)
            self._until = time.monotonic() + KNOWN_SECONDS
        found = Opening([one for one in self._known if one.at(host, port)], scopes_at(self._lines, host, port))
        if found.scopes and self._authority is None:
            raise Refused(
                403, "its methods can't be checked, as the workspace trusts no authority yet: pause and resume it"
            )
        return found

    def _read(self) -> tuple[list[Leashed], list[Line]]:
        workspace = self._workspace()
        if self._authority is None and file_of(workspace).exists():
            self._authority = authority.Authority(file_of(workspace))
        # Without an authority the workspace was started before it had a credential: its programs would trust nothing.
        known = credentials.leashed(workspace) if self._authority is not None else []
        return known, network.lines(workspace.environment, "agent")

    def _workspace(self) -> Workspace:
        return Workspace.objects.select_related("environment", "team").get(pk=self.workspace_id)

    async def used(self, use: Use):
        await self.daemon.thread(self._note, use)

    def _note(self, use: Use):
        data = {"host": _shown(use), "method": use.method, "path": use.path}
        credentials.note_use(self._workspace(), use.credential, data)

    def answered(self, use: Use) -> str | None:
        known = self._asking.get(_alike(use))
        return known.answer if known else None

    async def ask(self, use: Use) -> str:
        if use.credential is not None:
            return await self._asked(use)
        known = self._asking.get(_alike(use))
        if known is None or known.is_over:
            known = self._asking[_alike(use)] = _Asked(asyncio.create_task(self._asked(use)))
        return await known.wait()

    async def _asked(self, use: Use) -> str:
        pk = None
        try:
            pk, digest = await self.daemon.thread(self._submitted, use)
            while (why := await self.daemon.thread(extensions.ports.answer_about_request, pk)) is None:
                await asyncio.sleep(LOOK_SECONDS)
            self._until = 0.0  # what was known may have changed meanwhile
            if not why and use.credential is not None and not await self._is_set(use):
                return is_gone(use)
            if not why:
                pk, approved = None, pk
                await extensions.ports.use_approved_request(approved, digest)
                if use.credential is not None:
                    await self.used(use)
            return why
        except Problem as problem:
            return problem.detail
        finally:
            if pk is not None:  # the program went away
                await asyncio.shield(self.daemon.thread(extensions.ports.stop_asking_about_request, pk))

    async def _is_set(self, use: Use) -> bool:
        """Return whether the credential is there still, and for the host: an answer may take a day."""
        found = await self.at(use.host, use.port)
        return use.credential.id in [one.id for one in found.credentials]

    def _submitted(self, use: Use) -> tuple[str, str]:
        wish = {"host": _shown(use), "method": _method(use), "path": use.path, "query": _short(use.query)}
        wish |= {"body_bytes": use.body_bytes, "body_sha256": use.body_sha256}
        if use.credential is not None:
            wish["credential"] = use.credential.name
        return extensions.ports.ask_about_request(self._workspace(), wish, self.run_id)

    def scrubber(self, found: Sequence[Leashed]) -> Redactor:
        values = tuple((one.name, one.value) for one in found)
        if self._scrubber is None or self._scrubber[0] != values:
            self._scrubber = values, Redactor(values)
        return self._scrubber[1].again()


@dataclass
class _Asked:
    """A question that several requests of a Run wait for; it is withdrawn when the last of them has gone away."""

    task: asyncio.Task
    waiting: int = 0

    @property
    def answer(self) -> str | None:
        is_answered = self.task.done() and not self.task.cancelled() and not self.task.exception()
        return self.task.result() if is_answered else None

    @property
    def is_over(self) -> bool:
        """Whether nobody will answer it any more."""
        return self.task.cancelling() > 0 or (self.task.done() and self.answer is None)

    async def wait(self) -> str:
        self.waiting += 1
        try:
            return await asyncio.shield(self.task)
        finally:
            self.waiting -= 1
            if not self.waiting and not self.task.done():
                self.task.cancel()
                await asyncio.gather(self.task, return_exceptions=True)


def _alike(use: Use) -> tuple:
    return use.host, use.port, _method(use)


def _method(use: Use) -> str:
    """Return the method as a person is asked about it: of GraphQL with what it may change."""
    return f"{use.method} ({use.writes})" if use.writes else use.method


def _short(query: str) -> str:
    """Return a query as a person is shown it; of a long one the beginning, and the SHA-256 of all."""
    if len(query) <= MOST_QUERY:
        return query
    return f"{query[:MOST_QUERY]}… (of {len(query):,} characters, SHA-256 {hashlib.sha256(query.encode()).hexdigest()})"


def _shown(use: Use) -> str:
    return use.host if use.port == 443 else f"{use.host}:{use.port}"

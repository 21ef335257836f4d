"""The credentials of one Run, as the egress proxy asks for them (workspaces/egress/opened.py)."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from dashboard.net import outbound
from dashboard.net.trust import with_more
from dashboard.problems import Problem
from workspaces import extensions
from workspaces.egress import authority
from workspaces.egress.leash import Leashed
from workspaces.egress.opened import Use
from workspaces.host import paths
from workspaces.models import Workspace
from workspaces.secrets import credentials
from workspaces.shim.redact import Redactor

KNOWN_SECONDS = 1.0  # a credential that was deleted is used for so long at most
LOOK_SECONDS = 0.5  # interval between looks for an answer
# Below /etc: this machine's authorities and the workspace's own, and the latter alone.
TRUSTED, OWN = "handrail/trust.pem", "handrail/authority.pem"
# Variables by which programs find all authorities; Node and Deno take what is added to their own.
VARIABLES = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "AWS_CA_BUNDLE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
)
ADDED = ("NODE_EXTRA_CA_CERTS", "DENO_CERT")


def file_of(workspace) -> Path:
    """Return where the workspace's authority is, with its key: never in the workspace."""
    return paths.folder_of(workspace.pk) / "authority.pem"


def trust_of(workspace) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return (files below /etc, variables) with which a new Run trusts what the proxy opens; nothing without need.

    That is where a credential names the workspace's environment, and where a company's own authorities are set.
    """
    more = []
    if credentials.of_workspace(workspace):
        authority.make(file_of(workspace))
        more.append(authority.Authority(file_of(workspace)).certificate)
    if company := outbound.upstream().authorities:
        more.append(Path(company).read_bytes())
    if not more:
        return {}, {}
    files = {TRUSTED: with_more(*more), OWN: b"\n".join(more)}
    return files, dict.fromkeys(VARIABLES, f"/etc/{TRUSTED}") | dict.fromkeys(ADDED, f"/etc/{OWN}")


class RunLeashes:
    """The credentials of one Run; implements egress.opened.Leashes."""

    def __init__(self, daemon, workspace_id):
        self.daemon, self.workspace_id = daemon, workspace_id
        self.tls = outbound.tls
        self._authority: authority.Authority | None = None
        self._known: list[Leashed] = []
        self._until = 0.0

    @property
    def authority(self) -> authority.Authority:
        return self._authority

    async def at(self, host: str, port: int) -> Sequence[Leashed]:
        if time.monotonic() >= self._until:
            self._known = await self.daemon.thread(self._read)
            self._until = time.monotonic() + KNOWN_SECONDS
        return [one for one in self._known if one.at(host, port)]

    def _read(self) -> list[Leashed]:
        workspace = self._workspace()
        if self._authority is None and file_of(workspace).exists():
            self._authority = authority.Authority(file_of(workspace))
        # Without an authority the workspace was started before it had a credential: its programs would trust nothing.
        return credentials.leashed(workspace) if self._authority is not None else []

    def _workspace(self) -> Workspace:
        return Workspace.objects.select_related("environment", "team").get(pk=self.workspace_id)

    async def used(self, use: Use):
        await self.daemon.thread(self._note, use)

    def _note(self, use: Use):
        host = use.host if use.port == 443 else f"{use.host}:{use.port}"
        credentials.note_use(self._workspace(), use.credential, {"host": host, "method": use.method, "path": use.path})

    async def ask(self, use: Use) -> str:
        pk = None
        try:
            pk, digest = await self.daemon.thread(self._asked, use)
            while (why := await self.daemon.thread(extensions.ports.answer_about_credential, pk)) is None:
                await asyncio.sleep(LOOK_SECONDS)
            if not why:
                pk, used = None, pk
                await extensions.ports.use_credential_once(used, digest)
                await self.used(use)
            return why
        except Problem as problem:
            return problem.detail
        finally:
            if pk is not None:  # the program went away
                await asyncio.shield(self.daemon.thread(extensions.ports.stop_asking_about_credential, pk))

    def _asked(self, use: Use) -> tuple[str, str]:
        host = use.host if use.port == 443 else f"{use.host}:{use.port}"
        wish = {"credential": use.credential.name, "host": host, "method": use.method, "path": use.path}
        wish |= {"has_query": use.query, "body_bytes": use.body_bytes, "body_sha256": use.body_sha256}
        return extensions.ports.ask_about_credential(self._workspace(), wish)

    def scrubber(self, found: Sequence[Leashed]) -> Redactor:
        return Redactor([(one.name, one.value) for one in found])

"""Try the company's proxy: itself, and by it each host that Handrail is set up to ask."""

import socket
import ssl
from collections.abc import Callable
from contextlib import closing
from functools import partial
from urllib.parse import urlsplit

from django.conf import settings
from django.db import DatabaseError

from approvals.agent_runs.model_relay.providers import PROVIDERS
from dashboard.net import outbound
from dashboard.net.upstream import Upstream
from dashboard.ops.findings import Finding
from dashboard.people import sso
from workspaces.models import Environment
from workspaces.services import environments, network

NAME = "upstream proxy"
SECONDS = 10
MAX_LISTED = 10
WAY = "Check the proxy's address, and that this machine may reach it."
ALLOW = "Ask who runs the proxy to allow it, or name the host in HANDRAIL_UPSTREAM_NO_PROXY if it is reached straight."
TRUST = "If the proxy opens TLS, name the file of its authority in HANDRAIL_UPSTREAM_CA."


def findings() -> list[Finding]:
    """Return a finding for each proxy and one for each host that is reached by it; none where no proxy is set."""
    found = _of(NAME, outbound.upstream(), _asked_hosts)
    for name, named in settings.HANDRAIL_UPSTREAMS.items():
        found += _of(f"{NAME} {name}", named, partial(_listed_hosts, name))
    return found


def _of(name: str, upstream: Upstream, hosts: Callable[[], list[tuple[str, int]]]) -> list[Finding]:
    proxy = upstream.proxy
    if proxy is None:
        return []
    try:
        socket.create_connection((proxy.host, proxy.port), SECONDS).close()
    except OSError as error:
        words = f"{proxy.shown} does not answer ({error.strerror or type(error).__name__})."
        return [Finding(name, False, words, WAY, needed=False)]
    answers = Finding(name, True, f"{proxy.shown} answers.", needed=False)
    passing = [(host, port) for host, port in hosts() if upstream.on_the_way_to(host, port)]
    return [answers, *(_by_proxy(f"{name}: {host}", upstream, host, port) for host, port in passing)]


def _listed_hosts(name: str) -> list[tuple[str, int]]:
    """Return (host, port) of the first hosts that environments with this proxy list for their agents."""
    try:
        teams = Environment.objects.filter(upstream=name).values("team")
        rows = [row for row in environments.newest_versions(teams) if row.upstream == name]
    except DatabaseError:  # its own finding says so
        return []
    rules = [rule for row in rows for rule in network.listed(row, "agent") if not rule.below]
    return list(dict.fromkeys((rule.name, rule.port or 443) for rule in rules))[:MAX_LISTED]


def _asked_hosts() -> list[tuple[str, int]]:
    """Return (host, port) of what Handrail asks over TLS and by the proxy: providers, the identity provider."""
    addresses = [settings.HANDRAIL_MODEL_UPSTREAMS.get(name, one.upstream) for name, one in PROVIDERS.items()]
    try:
        provider = sso.in_force()
    except DatabaseError:  # its own finding says so
        provider = None
    addresses += [provider.issuer] if provider else []
    parts = [urlsplit(address) for address in addresses]
    hosts = dict.fromkeys((each.hostname, each.port or 443) for each in parts if each.scheme == "https")
    return list(hosts)


def _by_proxy(name: str, upstream: Upstream, host: str, port: int) -> Finding:
    try:
        plain = outbound.connect(host, port, SECONDS, of=upstream)
        with closing(plain), closing(outbound.wrapped(plain, host, of=upstream)):
            return Finding(name, True, "Reached, with a certificate that is trusted.", needed=False)
    except ssl.SSLCertVerificationError as error:
        words = f"Its certificate is not trusted: {error.verify_message}."
        return Finding(name, False, words, TRUST, needed=False)
    except OSError as error:
        return Finding(name, False, str(error) or type(error).__name__, ALLOW, needed=False)

"""Try the company's proxy: itself, and by it each host that Handrail is set up to ask."""

import socket
import ssl
from contextlib import closing
from urllib.parse import urlsplit

from django.conf import settings
from django.db import DatabaseError

from approvals.agent_runs.model_relay.providers import PROVIDERS
from dashboard.net import outbound
from dashboard.ops.findings import Finding
from dashboard.people import sso

NAME = "upstream proxy"
SECONDS = 10
WAY = "Check HANDRAIL_UPSTREAM_PROXY, and that this machine may reach it."
ALLOW = "Ask who runs the proxy to allow it, or name the host in HANDRAIL_UPSTREAM_NO_PROXY if it is reached straight."
TRUST = "If the proxy opens TLS, name the file of its authority in HANDRAIL_UPSTREAM_CA."


def findings() -> list[Finding]:
    """Return a finding for the proxy and one for each host that is reached by it; none where no proxy is set."""
    proxy = outbound.upstream().proxy
    if proxy is None:
        return []
    try:
        socket.create_connection((proxy.host, proxy.port), SECONDS).close()
    except OSError as error:
        words = f"{proxy.shown} does not answer ({error.strerror or type(error).__name__})."
        return [Finding(NAME, False, words, WAY, needed=False)]
    answers = Finding(NAME, True, f"{proxy.shown} answers.", needed=False)
    return [answers, *(_by_proxy(host, port) for host, port in _asked_hosts())]


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
    return [(host, port) for host, port in hosts if outbound.on_the_way_to(host, port)]


def _by_proxy(host: str, port: int) -> Finding:
    name = f"{NAME}: {host}"
    try:
        with closing(outbound.connect(host, port, SECONDS)) as plain, closing(outbound.wrapped(plain, host)):
            return Finding(name, True, "Reached, with a certificate that is trusted.", needed=False)
    except ssl.SSLCertVerificationError as error:
        words = f"Its certificate is not trusted: {error.verify_message}."
        return Finding(name, False, words, TRUST, needed=False)
    except OSError as error:
        return Finding(name, False, str(error) or type(error).__name__, ALLOW, needed=False)

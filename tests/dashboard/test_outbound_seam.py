"""Every connection that Handrail makes to another machine passes one seam, and with it the company's proxy."""

import ast

import pytest

from tests.support import CHECKOUT

# What opens a connection, as it is written where it is called.
OPENERS = {
    "socket.create_connection",
    "create_connection",
    "asyncio.open_connection",
    "open_connection",
    "http.client.HTTPConnection",
    "http.client.HTTPSConnection",
    "aiohttp.ClientSession",
    "requests.get",
    "requests.post",
    "requests.put",
    "requests.Session",
    "urllib.request.urlopen",
    "urlopen",
    "smtplib.SMTP",
    "apprise.Apprise.instantiate",
    "subprocess.Popen npm",
    "urllib3.PoolManager",
    "httpx.Client",
    "httpx.AsyncClient",
}
# Those that never leave this machine or this installation, or are no part of the server, each with its reason.
STAYS_HERE = {
    "approvals/connect/snippets/handrail.py": "a sample that people paste into their own agents",
    "approvals/hooks/command_hook.py": "the hook, which asks this desk",
    "dashboard/ops/doctor.py": "asks the web server of this machine",
    "dashboard/ops/proxy_check.py": "asks this desk at its public address, as a program of a user would",
    "dashboard/processes/parts.py": "asks the web server of this machine",
    "workspaces/drivers/kubernetes/bridge.py": "a pod of this installation, over mutual TLS",
    "workspaces/drivers/kubernetes/warm_pools.py": "a pod of this installation that waits, over mutual TLS",
    "workspaces/drivers/kubernetes/pod/canary.py": "runs in a pod, and tries what its cluster lets it reach",
    "workspaces/egress/proxy.py": "straight to an address, where no proxy is on the way; else by_proxy.py",
    "workspaces/host/leads.py": "a runner of this installation, over mutual TLS",
    "workspaces/host/member_home.py": "the desk of the installation that this host joins",
    "workspaces/runner/web_elsewhere.py": "the web of another host, through its runner",
    "workspaces/egress/by_proxy.py": "the egress proxy's half of the seam",
    "workspaces/management/commands/push.py": "asks this desk",
    "workspaces/previews/passing.py": "the runner's unix socket",
    "workspaces/runner/host_ports.py": "a port of this machine's loopback",
    "workspaces/runner/preview_sockets.py": "a port of a workspace",
    "dashboard/net/outbound.py": "the seam",
    "dashboard/ops/upstream_proxy.py": "tries the proxy itself",
    "handrail_card_corpus/__main__.py": "a program of its own, which asks a desk",
}


def modules():
    for root in ("approvals", "dashboard", "workspaces", "handrail_verify", "handrail_card_corpus"):
        yield from (CHECKOUT / root).rglob("*.py")


def opened_in(tree: ast.AST) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)} & OPENERS


def asks_the_seam(tree: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "outbound"
        for node in ast.walk(tree)
    )


def test_each_module_that_connects_asks_the_seam_or_stays_here():
    forgot, known = [], set()
    for path in modules():
        tree, name = ast.parse(path.read_text()), str(path.relative_to(CHECKOUT))
        if not (found := opened_in(tree)):
            continue
        if name in STAYS_HERE:
            known.add(name)
        elif not asks_the_seam(tree):
            forgot.append((name, sorted(found)))
    assert forgot == []
    assert known == {name for name in STAYS_HERE if (CHECKOUT / name).exists()}


@pytest.mark.parametrize(
    "line",
    [
        "import requests\nrequests.post(url)",
        "import asyncio\nasync def f():\n    await asyncio.open_connection(host, 443)",
        "import aiohttp\nasync def f():\n    async with aiohttp.ClientSession() as one: pass",
        "import socket\nsocket.create_connection((host, 443))",
    ],
)
def test_one_that_forgets_is_found(line):
    tree = ast.parse(line)
    assert opened_in(tree)
    assert not asks_the_seam(tree)

"""Whom a request about a workspace goes to, and what is said when that host is not there."""

import ast
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from dashboard.problems import Problem
from tests.pages.conftest import workspace  # noqa: F401 - a fixture
from tests.support import CHECKOUT
from workspaces.host import leads, membership
from workspaces.host.leads import Lead
from workspaces.models import Runner, Workspace
from workspaces.operations import runner_client


@pytest.fixture
def led(workspace):  # noqa: F811
    """`led(address)`: the workspace, led by host-b at this address."""

    def by(address: str) -> Workspace:
        row = Runner.objects.create(host="host-b", address=address)
        Workspace.objects.filter(pk=workspace.pk).update(runner=row)
        return Workspace.objects.get(pk=workspace.pk)

    leads._silent.clear()
    return by


def test_own_workspaces_cost_no_query(workspace, settings, django_assert_num_queries):  # noqa: F811
    row = Runner.objects.create(host=settings.HANDRAIL_HOST_NAME)
    Workspace.objects.filter(pk=workspace.pk).update(runner=row)
    assert leads.lead_of(Workspace.objects.get(pk=workspace.pk)) is None
    found = Workspace.objects.get(pk=workspace.pk)
    with django_assert_num_queries(0):
        assert leads.lead_of(found) is None


def test_a_host_without_an_address_is_named(led):
    with pytest.raises(Problem, match="is on host-b, which this address cannot reach") as refused:
        runner_client.ask("GET", led(""), "listing")
    assert (refused.value.status, refused.value.extra["code"], refused.value.extra["host"]) == (
        503,
        "elsewhere",
        "host-b",
    )


def test_a_host_that_does_not_answer_is_unreachable(led):
    found = led(f"127.0.0.1:{free_port()}")
    for _ in range(2):
        with pytest.raises(Problem, match="host-b cannot be reached: connection refused") as refused:
            runner_client.ask("GET", found, "listing")
        assert (refused.value.status, refused.value.extra["code"]) == (503, "unreachable")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class _Bare(BaseHTTPRequestHandler):
    """A server that speaks no TLS."""


def test_an_address_without_tls_is_no_lead(led):
    with HTTPServer(("127.0.0.1", 0), _Bare) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        found = led(f"127.0.0.1:{server.server_port}")
        with pytest.raises(Problem, match="host-b cannot be reached") as refused:
            runner_client.ask("GET", found, "listing")
    assert refused.value.extra["code"] == "unreachable"


def test_an_address_may_be_of_ipv6():
    assert Lead("", "b", "[fd00::5]:8443").place == ("fd00::5", 8443)
    assert Lead("", "b", "b.internal:8443").place == ("b.internal", 8443)


def test_each_request_to_a_runner_names_its_workspace():
    """`ask`, `call` and `pieces` take a workspace and what of it; a path would reach this host's runner alone."""
    calls = []
    for room in ("approvals", "dashboard", "workspaces"):
        for path in Path(CHECKOUT, room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                    continue
                if ast.unparse(node.func) in {f"runner_client.{name}" for name in ("ask", "call", "pieces")}:
                    calls.append((path.relative_to(CHECKOUT), node))
    assert len(calls) > 25
    for path, node in calls:
        named = ast.unparse(node.args[0 if node.func.attr == "pieces" else 1])
        assert named.endswith("workspace"), (path, ast.unparse(node))


def test_own_row_is_made_for_a_host_that_runs_no_runner(db, settings):
    settings.HANDRAIL_HOST_NAME = "web-only"
    assert membership.own_row() == membership.own_row() == Runner.objects.get(host="web-only")

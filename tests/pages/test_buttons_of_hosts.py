"""Drain, undrain and lost on the Status page, and the move of a workspace: each page says first what will happen."""

import re
from datetime import timedelta
from html import unescape

import pytest

from dashboard.database import clock
from workspaces.host import run_leads
from workspaces.models import Operation, Run, Runner, State, Workspace

MOVE = "/w/payments/repo-task-1/move/"
TAG = re.compile(r"<[^>]*>")
SANDBOX = {"sandbox": {"available": True, "isolation": "namespace"}}


def words(answer) -> str:
    """The words of a page, without its tags."""
    return " ".join(unescape(TAG.sub(" ", answer.content.decode())).split())


@pytest.fixture
def pair(workspace):
    """Two hosts that answer; the workspace is stopped on host-a."""
    fields = {"heartbeat_at": clock.now(), "capabilities": SANDBOX, "parts": ["web", "runner"]}
    one, other = (Runner.objects.create(host=name, **fields) for name in ("host-a", "host-b"))
    Workspace.objects.filter(pk=workspace.pk).update(runner=one, placed_at=clock.now(), state=State.STOPPED)
    return one, other


def up_in_a_pod(runner):
    """Mark the workspace as up in a pod, which outlives its host."""
    Workspace.objects.update(state=State.READY)
    now = clock.now()
    run = Run.objects.create(workspace=Workspace.objects.get(), runner=runner, started_at=now, ready_at=now)
    run_leads.keep(run, "what it takes")


@pytest.fixture
def operator(alice, browser_of):
    type(alice).objects.filter(pk=alice.pk).update(is_superuser=True)
    return browser_of(alice)


def test_a_superuser_drains_a_host_on_a_page_that_names_what_is_there(pair, operator, read):
    assert "/status/hosts/host-a/drain/" in read(operator, "/status/")
    asked = words(operator.get("/status/hosts/host-a/drain/"))
    assert "Drain host-a? It gets no new workspaces." in asked
    assert "payments/repo-task-1: moves once it is idle" in asked
    assert Runner.objects.get(host="host-a").draining_at is None
    operator.post("/status/hosts/host-a/drain/")
    assert Runner.objects.get(host="host-a").draining_at is not None
    assert "/status/hosts/host-a/undrain/" in read(operator, "/status/")
    operator.post("/status/hosts/host-a/undrain/")
    assert Runner.objects.get(host="host-a").draining_at is None


def test_a_silent_host_is_declared_lost_on_a_page_that_says_what_comes_back(pair, operator, read, settings):
    operator.post("/status/hosts/host-a/lost/")
    assert "host-a answers. Drain it instead, or stop it first." in read(operator, "/status/")
    Runner.objects.filter(host="host-a").update(heartbeat_at=clock.now() - timedelta(minutes=5))
    assert "/status/hosts/host-a/lost/" in read(operator, "/status/")
    asked = words(operator.get("/status/hosts/host-a/lost/"))
    assert "payments/repo-task-1: its files are lost" in asked
    settings.HANDRAIL_BUCKET = "s3://bucket"
    asked = words(operator.get("/status/hosts/host-a/lost/"))
    assert "Declare host-a lost?" in asked
    assert "payments/repo-task-1: comes back from snapshot 2 of" in asked
    up_in_a_pod(pair[0])
    asked = words(operator.get("/status/hosts/host-a/lost/"))
    assert "payments/repo-task-1: goes on under another host; its commands and terminals end" in asked
    Runner.objects.filter(host="host-b").update(capabilities={})
    assert "repo-task-1: comes back from snapshot 2 of" in words(operator.get("/status/hosts/host-a/lost/"))
    operator.post("/status/hosts/host-a/lost/")
    assert Runner.objects.get(host="host-a").lost_at is not None


def test_an_admin_who_is_no_superuser_has_no_buttons(pair, alice, browser_of, read):
    client = browser_of(alice)
    page = read(client, "/status/")
    assert "host-a" in page
    assert "/status/hosts/" not in page
    assert client.post("/status/hosts/host-a/drain/").status_code == 403
    assert Runner.objects.get(host="host-a").draining_at is None


def test_no_such_host_and_no_such_word(pair, operator):
    assert operator.get("/status/hosts/nowhere/drain/").status_code == 404
    assert operator.get("/status/hosts/host-a/remove/").status_code == 404


def test_a_lead_moves_a_workspace_on_a_page_that_says_what_happens(pair, lena, browser_of, read, settings):
    client = browser_of(lena)
    assert MOVE in read(client, "/w/payments/repo-task-1/")
    asked = read(client, MOVE)
    assert "Every byte is compared at the new place" in " ".join(asked.split())
    assert 'value="host-b"' in asked
    assert 'value="host-a"' not in asked
    assert not Operation.objects.exists()
    settings.HANDRAIL_BUCKET = "s3://bucket"
    client.post(MOVE, {"host": "host-b"})
    assert Operation.objects.get(kind="move").args == {"runner": str(pair[1].pk)}


def test_who_may_not_move_it_sees_no_button(pair, vera, browser_of, read):
    client = browser_of(vera)
    assert MOVE not in read(client, "/w/payments/repo-task-1/")
    assert client.post(MOVE, {"host": "host-b"}).status_code == 403
    assert not Operation.objects.exists()

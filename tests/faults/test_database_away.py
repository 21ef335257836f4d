"""PostgreSQL is stopped for a while under a running product, and started again: nothing is lost, nobody is denied."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import OperationalError, connections

from approvals.hooks import command_hook
from dashboard.database.errors import is_away
from tests.support import postgres
from tests.support.product import Product
from tests.support.waiting import until
from workspaces.host import identity

SECONDS = float(os.environ.get("HANDRAIL_TEST_AWAY_SECONDS", "3"))  # by hand: 30
LINES = int(SECONDS * 4 + 20)  # that the command prints, four a second: it runs longer than the database is away


@pytest.fixture
def server(require):
    if postgres.programs() is None:
        require("postgres", "no PostgreSQL is installed")
    made = postgres.Server()
    yield made
    made.clean_up()


@pytest.fixture
def running(server, tmp_path):
    product = Product(tmp_path / "home", DATABASE_URL=server.url)
    try:
        product.start()
        yield product
    finally:
        product.clean_up()


@pytest.fixture
def connected(server, monkeypatch, django_db_blocker):
    """Django's connections lead to the server."""
    address = {"HOST": "127.0.0.1", "PORT": str(server.port), "NAME": "handrail", "USER": "handrail"}
    engine = {"ENGINE": "django.db.backends.postgresql", "OPTIONS": {}}
    monkeypatch.setitem(connections.settings, "default", connections.settings["default"] | engine | address)
    before, connections["default"] = connections["default"], connections.create_connection("default")
    with django_db_blocker.unblock():
        yield
    connections["default"].close()
    connections["default"] = before


def hook(product, token: str, command: str, role: str = "gate", **more) -> subprocess.Popen:
    """Start the hook's program as Claude Code does before a call; with the role "report" after it."""
    event = {
        "session_id": "5d6e", "transcript_path": "/tmp/none.jsonl", "cwd": "/tmp", "permission_mode": "default",
        "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": command},
        "tool_use_id": f"toolu_{command.split()[-1]}", **more,
    }  # fmt: skip
    asked = subprocess.Popen(
        [sys.executable, "-IS", command_hook.__file__, "env", role],
        env={"HANDRAIL_URL": product.url, "HANDRAIL_TOKEN": token},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    asked.stdin.write(json.dumps(event))
    asked.stdin.close()
    asked.stdin = None
    return asked


def decision(asked: subprocess.Popen) -> str:
    answer, said = asked.communicate(timeout=120)
    assert asked.returncode == 0, said
    return json.loads(answer)["hookSpecificOutput"]["permissionDecision"]


def pending(product, token: str, count: int) -> list[dict]:
    """Return the actions that wait for a decision once there are so many."""
    answer = product.get("/api/v1/actions?status=pending", token)
    found = answer.json["actions"] if answer.status == 200 else []
    return found if len(found) == count else []


def approve(product, token: str, actions: list[dict]):
    for each in actions:
        digest = product.get(f"/api/v1/actions/{each['id']}", token).json["digest"]
        told = {"verdict": "approve", "digest": digest}
        assert product.post(f"/api/v1/actions/{each['id']}/decision", token, told).status == 200


def test_what_waits_goes_on_when_the_database_is_back(server, running):
    agent, person = running.agent_token(), running.person_token("rita", "reviewer")
    assert running.post("/api/v1/workspaces", agent, {"key": "busy"}).status == 201
    until(lambda: running.get("/api/v1/workspaces/busy", agent).json["state"] == "ready")
    counts = {"argv": ["sh", "-c", f"for i in $(seq 1 {LINES}); do echo $i; sleep 0.25; done"]}
    command = running.post("/api/v1/workspaces/busy/commands", agent, counts).json
    first = hook(running, agent, "git push origin zero")
    approve(running, person, until(lambda: pending(running, person, 1)))
    assert decision(first) == "allow"
    waits = hook(running, agent, "git push origin one")
    [asked] = until(lambda: pending(running, person, 1))
    parts = {name: running.part_pid(name) for name in ("web", "runner", "queue")}
    logged = len(running.log)
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(running.get, f"/api/v1/actions/{asked['id']}?wait=60", agent, timeout=100)
        time.sleep(0.5)
        server.stop()
        began = time.monotonic()
        comes = hook(running, agent, "git push origin two")
        ended = {"hook_event_name": "PostToolUse", "tool_response": {"stdout": "clean", "stderr": ""}}
        reports = hook(running, agent, "git push origin zero", "report", **ended)
        refused = [running.get("/api/v1/me", agent), running.post("/api/v1/workspaces", agent, {"key": "later"})]
        time.sleep(max(0, SECONDS - (time.monotonic() - began)))
        assert [waits.poll(), comes.poll()] == [None, None]
        server.start()
        meanwhile = [line for line in running.log[logged:].splitlines() if " INFO " not in line]
        took = time.monotonic() - began
        approve(running, person, until(lambda: pending(running, person, 2)))
        assert poll.result().status == 200
    assert [decision(waits), decision(comes)] == ["allow", "allow"]
    reports.communicate(timeout=60)
    assert reports.returncode == 0
    [told] = running.get("/api/v1/actions?status=succeeded", agent).json["actions"]
    assert "zero" in told["title"]
    for answer in refused:
        assert answer.status == 503, answer.text
        assert answer.headers["Retry-After"] == "5"
        assert answer.headers["Content-Type"] == "application/problem+json"
    assert 3 <= len(meanwhile) <= 3 + took, "\n".join(meanwhile)
    assert not [line for line in meanwhile if "Traceback" in line]
    assert running.settled(f"/api/v1/commands/{command['id']}", agent)["exit_status"] == 0
    printed = running.get(f"/api/v1/commands/{command['id']}/output", agent).text
    assert printed.split() == [str(number) for number in range(1, LINES + 1)]
    assert parts == {name: running.part_pid(name) for name in parts}


def test_a_runner_takes_its_hosts_name_again_and_never_beside_another(server, connected):
    first, second = identity.Lead(), identity.Lead()
    first.take()
    with pytest.raises(identity.OtherInstallation):
        second.take()
    server.stop()
    with pytest.raises(OperationalError) as raised:
        first.take()
    assert is_away(raised.value)
    server.start()
    first.take()  # its connection was lost, and with it the lock
    with pytest.raises(identity.OtherInstallation):
        second.take()
    server.stop()
    server.start()
    second.take()
    with pytest.raises(identity.OtherInstallation):
        first.take()
    second.leave()
    first.take()
    first.leave()

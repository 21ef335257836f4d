"""An upgrade of two hosts one by one, behind nginx: no held call is lost, none is denied, and none is asked twice."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from bench.cluster import hosts
from bench.day.cluster import programs
from tests.support import CHECKOUT
from tests.support.waiting import until

PROGRAM = CHECKOUT / "approvals" / "hooks" / "command_hook.py"
CALLS = 50
# Where a Python finds it, it says that the next minor version is installed.
NEXT_VERSION = """
import importlib.metadata as metadata
_version = metadata.version
metadata.version = lambda name: "0.2.0" if name == "handrail" else _version(name)
"""


@pytest.fixture
def cluster(tmp_path, require):
    if programs() is None:
        require("postgres", "PostgreSQL's server is not installed")
    made = hosts.Cluster(tmp_path / "cluster", hosts=2, kind="loopback")
    try:
        made.up()
        yield made
    finally:
        made.down()


class Agents:
    """Many sessions of a connected agent, each of which waits in its hook for one call."""

    def __init__(self, address: str, token: str, folder, stack: ExitStack):
        folder.mkdir()
        connection = folder / "connection.json"
        connection.write_text(json.dumps({"address": address, "token": token, "patience_s": 3600}))
        line = [sys.executable, "-I", str(PROGRAM), str(connection), "gate"]
        self.waiting = []
        for number in range(CALLS):
            hook = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            stack.enter_context(hook)  # closes its pipes and waits, after it was killed
            stack.callback(hook.kill)
            hook.stdin.write(json.dumps(_event(number)).encode())
            hook.stdin.close()
            self.waiting.append(hook)

    def answers(self) -> list[tuple[int, str, str]]:
        """Return (exit status, decision, what was said on stderr) of each."""
        found = []
        for hook in self.waiting:
            printed, said = hook.stdout.read(), hook.stderr.read().decode()
            status = hook.wait(120)
            decision = json.loads(printed)["hookSpecificOutput"]["permissionDecision"] if printed else ""
            found.append((status, decision, said))
        return found

    @property
    def are_waiting(self) -> bool:
        return all(hook.poll() is None for hook in self.waiting)


def _event(number: int) -> dict:
    return {
        "session_id": f"session-{number}",
        "transcript_path": "",
        "cwd": "/",
        "hook_event_name": "PreToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": f"git push origin branch-{number}"},
        "tool_use_id": f"toolu_{number}",
    }


class Desk:
    """The cluster's API through nginx, as a lead; a request that meets a web that stops is made again."""

    def __init__(self, cluster, token: str):
        self.cluster, self.token = cluster, token

    def __call__(self, method: str, path: str, body=None):
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        deadline = time.monotonic() + 60
        while True:
            asked = urllib.request.Request(f"{self.cluster.url}/api/v1{path}", data, headers, method=method)
            try:
                with urllib.request.urlopen(asked, timeout=60) as answer:
                    return json.loads(answer.read())
            except urllib.error.HTTPError as refused:
                if refused.code not in (502, 503, 504) or time.monotonic() > deadline:
                    raise AssertionError(refused.read().decode()) from None
                refused.close()
                time.sleep(0.5)

    def pending(self) -> list[dict]:
        return self("GET", "/actions?status=pending&limit=200")["actions"]


def test_fifty_held_calls_outlast_a_rolling_upgrade_of_two_hosts(cluster, tmp_path):
    desk = Desk(cluster, cluster.token("lena"))
    (tmp_path / "next").mkdir()
    (tmp_path / "next" / "sitecustomize.py").write_text(NEXT_VERSION)
    with ExitStack() as stack:
        agents = Agents(cluster.url, cluster.agent_token("claude"), tmp_path / "agents", stack)
        until(lambda: len(desk.pending()) == CALLS)
        before = {action["id"] for action in desk.pending()}
        for host in cluster.hosts.values():
            host.stop()
            host.environment["PYTHONPATH"] = str(tmp_path / "next")
            host.start()
            listed = {row["name"]: row["version"] for row in json.loads(cluster.first.manage("host", "list", "--json"))}
            assert listed[f"host-{host.name}"] == "0.2.0"
        assert agents.are_waiting
        until(lambda: {action["id"] for action in desk.pending()} == before)
        with ThreadPoolExecutor(4) as people:
            list(people.map(lambda action: _approve(desk, action), desk.pending()))
        assert agents.answers() == [(0, "allow", "")] * CALLS
        assert desk.pending() == []


def _approve(desk, action: dict):
    desk("POST", f"/actions/{action['id']}/decision", {"verdict": "approve", "digest": action["digest"]})

"""api.md, Running it and Without Django: what scripts and load balancers rely on."""

import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.contract.conftest import as_promised
from tests.support import CHECKOUT


def python(*arguments, given: str | None = None) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", *arguments], cwd=CHECKOUT, input=given, capture_output=True, text=True, check=False
    )


def test_healthz_and_readyz(product):
    assert product.get("/healthz").status == 200
    ready = product.get("/readyz")
    assert ready.status == 200
    parts = {part["part"]: part["ok"] for part in ready.json}
    assert {"web", "runner", "database", "store"} <= set(parts)
    assert set(parts.values()) == {True}


def test_the_openapi_document_and_its_docs_work_offline(product):
    document = product.get("/api/v1/openapi.json").json
    assert document["openapi"].startswith("3.")
    docs = product.get("/api/v1/docs")
    assert docs.status == 200
    for address in re.findall(r'(?:src|href)="([^"]+)"', docs.text):
        assert not address.startswith(("http:", "https:", "//")), address
        if address.startswith("/"):
            assert product.get(address).status == 200, address


@pytest.mark.parametrize("who", [("--agent", "printed"), ("--user", "printed", "--role", "viewer")])
def test_create_token_prints_the_token_and_nothing_else(product, who):
    done = product.manage("create_token", "--team", "printing", *who)
    assert (done.returncode, re.fullmatch(r"hr_[0-9a-f]{8}_[\w-]+\n", done.stdout) is not None) == (0, True)
    me = product.get("/api/v1/me", done.stdout.strip()).json
    assert (me["name"], list(me["teams"])) == ("printed", ["printing"])


def test_sign_in_url_prints_a_url_of_this_address(product):
    product.person_token("sonja", "viewer", team="printing")
    done = product.manage("sign_in_url", "sonja")
    assert done.returncode == 0
    assert done.stdout.startswith(f"{product.url}/sign-in/")
    assert product.manage("sign_in_url", "nobody-of-that-name").returncode == 1


def test_the_store_alone(tmp_path):
    store, tree = tmp_path / "store", tmp_path / "tree"
    tree.mkdir()
    (tree / "a").write_text("one\n")
    engine = ("workspaces.store",)
    assert python(*engine, "init", str(store)).returncode == 0
    first = json.loads(python(*engine, "snapshot", str(store), str(tree)).stdout)
    promised = {"tree": "str", "entries": "int", "bytes": "int", "added_bytes": "int", "seconds": "float"}
    assert as_promised(first, promised) == promised
    assert "skipped" in first
    (tree / "a").write_text("two\n")
    second = json.loads(python(*engine, "snapshot", str(store), str(tree)).stdout)
    differs = [
        json.loads(line)
        for line in python(*engine, "diff", str(store), first["tree"], second["tree"]).stdout.splitlines()
    ]
    assert [(change["path"], change["kind"]) for change in differs] == [("a", "modified")]
    listed = [json.loads(line) for line in python(*engine, "ls", str(store), first["tree"]).stdout.splitlines()]
    assert len(listed) == 1
    assert python(*engine, "cat", str(store), first["tree"], "a").stdout == "one\n"
    assert python(*engine, "restore", str(store), first["tree"], str(tmp_path / "back")).returncode == 0
    assert (tmp_path / "back" / "a").read_text() == "one\n"
    assert python(*engine, "verify", str(store), "--full").returncode == 0
    assert python(*engine, "gc", str(store), "--keep", "-", given=f"{second['tree']}\n").returncode == 0
    gone = python(*engine, "cat", str(store), "0" * 64, "a")
    assert (gone.returncode, gone.stderr.count("\n"), "Traceback" in gone.stderr) == (1, 1, False)


def test_the_policy_alone():
    asked = [
        {"tool": "Bash", "input": {"command": "git push"}, "allow_rules": ["Bash(git status)"]},
        {"tool": "Bash", "input": {"command": "git status"}, "allow_rules": ["Bash(git status)"]},
        {"tool": "Bash", "input": {"command": "rm -rf /"}},
    ]
    done = python("approvals.policy", "decide", given="".join(json.dumps(line) + "\n" for line in asked))
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    promised = {"tier": "str", "reasons": "list", "rule": "str|null"}
    assert [as_promised(verdict, promised) for verdict in verdicts] == [promised] * 3
    assert [verdict["tier"] for verdict in verdicts] == ["high", "low", "forbidden"]


def test_agents_that_wait_hold_no_threads(product, agent):
    """Three hundred of them would be three hundred threads."""
    action = agent.post("/actions", {"tool": "Bash", "arguments": {"command": "git push origin waits"}}, 201).json
    status = Path(f"/proc/{product.part_pid('web')}/status")

    def threads() -> int:
        return int(re.search(r"^Threads:\s+(\d+)", status.read_text(), re.M)[1])

    with ThreadPoolExecutor(40) as pool:
        polls = [pool.submit(agent.get, f"/actions/{action['id']}?wait=50") for _ in range(40)]
        deadline = time.monotonic() + 30
        # Each poll looks once in a thread of its own; forty that wait are fewer threads than forty.
        time.sleep(3)
        while (held := threads()) > 20 and time.monotonic() < deadline:
            time.sleep(0.2)
        assert [poll.done() for poll in polls] == [False] * 40
        agent.post(f"/actions/{action['id']}/cancel", None, 200)
        assert {poll.result().json["status"] for poll in polls} == {"cancelled"}
    assert held <= 20

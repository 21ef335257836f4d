"""In a connected folder whatever an agent asks of Handrail is an action that a person decides; here from outside."""

import asyncio
import json
import os
import shlex
import subprocess
import tempfile
import time
import uuid
from base64 import b64encode
from pathlib import Path

import pytest

from tests.approvals.connect.test_connect_folder import hook_line
from tests.workspaces.terminals.viewers import Viewer

HOOKS = (".claude/settings.local.json", ".claude/settings.json", ".claude", "./.claude//settings.json", ".CLAUDE/x/..")


class Connected:
    """A folder with its agent's token, and two people."""

    def __init__(self, product, path: Path):
        self.product, self.path = product, path
        connection = next(word for word in shlex.split(hook_line(path)) if word.endswith(".json"))
        self.token = json.loads(Path(connection).read_text())["token"]
        self.lead = product.person_token("lead-of-verbs", "lead")
        rows = self.ok("GET", "/workspaces", token=self.lead)["workspaces"]
        self.key = next(row["key"] for row in rows if row["source"].get("path") == str(path))
        self.at = f"/workspaces/{self.key}"

    def call(self, method, path, body=None, *, token=None, key=None):
        headers = {"Idempotency-Key": key} if key else {}
        return self.product.call(method, f"/api/v1{path}", token or self.token, body, headers=headers)

    def ok(self, method, path, body=None, *, expect=200, **more):
        answer = self.call(method, path, body, **more)
        assert answer.status == expect, (method, path, answer.status, answer.body[:2000])
        return answer.json

    def asked(self, method, path, body=None, **more) -> dict:
        """What waits for a person now."""
        told = self.ok(method, path, body, expect=202, **more)
        assert told["status"] == told["action"]["status"] == "pending"
        assert told["url"].endswith(f"/actions/{told['action']['id']}/")
        return told["action"]

    def decide(self, action, verdict="approve"):
        answer = {"verdict": verdict, "digest": action["digest"], "comment": "because"}
        self.ok("POST", f"/actions/{action['id']}/decision", answer, token=self.lead)

    def over(self, action) -> dict:
        for _ in range(12):
            found = self.ok("GET", f"/actions/{action['id']}?wait=5")
            if found["status"] not in ("pending", "approved", "running"):
                return found
        raise AssertionError(found)

    def files(self) -> dict:
        """{path: bytes} of the folder, without what git keeps."""
        paths = (path for path in self.path.rglob("*") if path.is_file() and ".git" not in path.parts)
        return {str(path.relative_to(self.path)): path.read_bytes() for path in paths}


@pytest.fixture
def folder():
    """A repository of an ordinary user, whose programs can run: they never do as root."""
    with tempfile.TemporaryDirectory(prefix="own-") as base:
        path = Path(base) / "calc"
        path.mkdir()
        (path / "calc.py").write_text("print(1)\n")
        for args in (["init", "-q"], ["add", "."], ["-c", "user.name=T", "-c", "user.email=t@e", "commit", "-qm", "1"]):
            subprocess.run(["git", *args], cwd=path, check=True)
        if os.geteuid() == 0:
            os.chmod(base, 0o755)
            for one in (path, *path.rglob("*")):
                os.chown(one, 65534, 65534)
        yield path


@pytest.fixture
def connected(product, folder):
    done = product.manage("connect", "claude-code", str(folder))
    assert done.returncode == 0, done.stderr
    yield Connected(product, folder)
    product.manage("disconnect", str(folder))


def test_every_verb_asks_and_changes_nothing(connected):
    before, rows = connected.files(), connected.ok("GET", f"{connected.at}/terminals")
    titles = {}
    for method, path, body in (
        ("PUT", "files/new.txt", b"new\n"),
        ("PUT", "files/calc.py", b"print(2)\n"),
        ("DELETE", "files/calc.py", None),
        ("POST", "reset", {}),
        ("POST", "snapshots/1/restore", {"paths": ["calc.py"]}),
        ("POST", "snapshots/1/restore", {"paths_b64": [b64encode(b"calc.py").decode()]}),
        ("POST", "terminals", {}),
        ("POST", "commands", {"command": "git push origin main"}),
        ("POST", "commands", {"argv": ["git", "push", "origin", "main"]}),
        ("POST", "pause", {}),
        ("POST", "stop", {}),
        ("DELETE", "", None),
    ):
        action = connected.asked(method, f"{connected.at}/{path}".rstrip("/"), body)
        titles[action["title"]] = action["tier"]
    time.sleep(1)
    assert connected.files() == before
    assert connected.ok("GET", f"{connected.at}/terminals") == rows
    assert connected.ok("GET", connected.at, token=connected.lead)["state"] == "ready"
    assert len(titles) == 10  # the command by its text and by its words is one
    assert set(titles.values()) == {"high"}


def test_an_approved_file_is_written_once_whatever_is_repeated(connected):
    key, path = uuid.uuid4().hex, f"{connected.at}/files/notes/new.txt"
    action = connected.asked("PUT", path, b"new\n", key=key)
    assert connected.asked("PUT", path, b"new\n", key=key)["id"] == action["id"]
    connected.decide(action)
    assert connected.over(action)["status"] == "succeeded"
    assert (connected.path / "notes/new.txt").read_bytes() == b"new\n"
    (connected.path / "notes/new.txt").write_bytes(b"mine\n")
    again = connected.ok("PUT", path, b"new\n", key=key, expect=202)
    assert (again["action"]["id"], again["status"]) == (action["id"], "succeeded")
    assert connected.call("PUT", path, b"other\n", key=key).status == 422
    assert (connected.path / "notes/new.txt").read_bytes() == b"mine\n"
    assert connected.asked("PUT", path, b"new\n")["id"] != action["id"]


def test_a_denial_is_told_once(connected):
    path = f"{connected.at}/files/calc.py"
    action = connected.asked("DELETE", path)
    connected.decide(action, "deny")
    refused = connected.ok("DELETE", path, expect=409)
    assert (refused["action"], "because" in refused["detail"]) == (action["id"], True)
    assert (connected.path / "calc.py").exists()
    assert connected.asked("DELETE", path)["id"] != action["id"]


def test_an_approved_delete_comes_after_a_snapshot(connected):
    action = connected.asked("DELETE", f"{connected.at}/files/calc.py")
    head = connected.ok("GET", connected.at)["head_snapshot"]
    connected.decide(action)
    assert connected.over(action)["status"] == "succeeded"
    assert not (connected.path / "calc.py").exists()
    newest = connected.ok("GET", f"{connected.at}/snapshots")["snapshots"][0]
    assert (newest["kind"], newest["number"]) == ("safety", head + 1)


def test_what_people_pinned_and_run_ends_after_a_yes(connected):
    connected.ok("POST", f"{connected.at}/snapshots/1/pin", expect=202, token=connected.lead)
    command = {"command": "sleep 300"}
    running = connected.ok("POST", f"{connected.at}/commands", command, expect=201, token=connected.lead)["id"]
    unpin = connected.asked("DELETE", f"{connected.at}/snapshots/1/pin")
    cancel = connected.asked("POST", f"/commands/{running}/cancel")
    assert connected.ok("GET", f"{connected.at}/snapshots/1")["pinned"] is True
    assert connected.ok("GET", f"/commands/{running}")["state"] in ("claimed", "started")
    for action in (unpin, cancel):
        connected.decide(action)
        assert connected.over(action)["status"] == "succeeded"
    assert connected.ok("GET", f"{connected.at}/snapshots/1")["pinned"] is False
    assert connected.ok("GET", f"/commands/{running}?wait=25")["state"] == "settled"


def test_a_command_that_was_approved_is_what_the_repeat_answers_with(connected):
    key, wish = uuid.uuid4().hex, {"command": "echo once >> count; git push origin main"}
    action = connected.asked("POST", f"{connected.at}/commands", wish, key=key)
    connected.decide(action)
    ended = connected.over(action)
    assert ended["result"].get("exit_status"), ended  # there is no origin
    command = connected.ok("POST", f"{connected.at}/commands", wish, key=key, expect=201)
    assert (command["command"], command["action"]["id"]) == (wish["command"], action["id"])
    assert (connected.path / "count").read_text() == "once\n"
    assert connected.call("POST", f"{connected.at}/commands", wish | {"env": {"A": "1"}}).status == 422


def test_what_an_agent_types_is_asked_about_and_typed_by_handrail(connected):
    key = uuid.uuid4().hex
    action = connected.asked("POST", f"{connected.at}/terminals", {"argv": ["sh"]}, key=key)
    connected.decide(action)
    assert connected.over(action)["status"] == "succeeded"
    terminal = connected.ok("POST", f"{connected.at}/terminals", {"argv": ["sh"]}, key=key, expect=201)["id"]
    assert len(connected.ok("GET", f"{connected.at}/terminals")["terminals"]) == 1

    async def say(text: bytes):
        async with Viewer(connected.product, connected.token, terminal) as viewer:
            assert (await viewer.frame("ready"))["read_only"] is True
            await viewer.type(text)
            asked = await viewer.frame("asked")
            while await viewer.step():
                pass
            return viewer.socket.close_code, asked

    code, asked = asyncio.run(asyncio.wait_for(say(b"echo typed > typed\n"), 60))
    assert (code, asked["status"]) == (4403, "pending")
    time.sleep(1)
    assert not (connected.path / "typed").exists()
    typed = connected.ok("GET", f"/actions/{asked['action']}")
    assert typed["arguments"]["text"] == "echo typed > typed\n"
    connected.decide(typed)
    assert connected.over(typed)["status"] == "succeeded"
    for _ in range(100):
        if (connected.path / "typed").exists():
            break
        time.sleep(0.1)
    assert (connected.path / "typed").read_text() == "typed\n"


def test_the_gates_files_are_no_agents_to_write(connected):
    before = connected.files()
    for name in HOOKS:
        for method, body in (("PUT", b"{}"), ("DELETE", None)):
            answer = connected.call(method, f"{connected.at}/files/{name}", body)
            assert answer.status in (403, 422), (method, name, answer.status, answer.body)
        call = {"tool": "Write", "arguments": {"file_path": name, "content": "{}"}, "workspace": connected.key}
        assert connected.call("POST", "/actions", call | {"mode": "broker"}).status == 403
        for body in ({"paths": [name]}, {"paths_b64": [b64encode(name.encode()).decode()]}):
            answer = connected.call("POST", f"{connected.at}/snapshots/1/restore", body)
            assert answer.status == (422 if ".." in name.split("/") else 403), (name, answer.body)
    assert connected.files() == before


def test_nor_are_they_in_a_sandbox_where_other_files_are(product):
    token = product.agent_token("sandboxed")
    path = f"/api/v1/workspaces/hooks-{uuid.uuid4().hex[:8]}"
    assert product.post("/api/v1/workspaces", token, {"key": path.rpartition("/")[2]}).status == 201
    product.settled(path, token)
    assert product.call("PUT", f"{path}/files/.claude/other.json", token, b"{}").status == 202
    for name in HOOKS[:3]:
        assert product.call("PUT", f"{path}/files/{name}", token, b"{}").status == 403
        assert product.call("DELETE", f"{path}/files/{name}", token).status == 403
    # What a program wrote there, no restore of the agent's takes away or puts back.
    lead = product.person_token("lena", "lead")
    command = {"command": "mkdir -p .claude; echo 1 > .claude/settings.json; echo 1 > a"}
    done = product.post(f"{path}/commands", lead, command).json
    assert product.get(f"/api/v1/commands/{done['id']}?wait=25", token).json["exit_status"] == 0
    assert product.post(f"{path}/snapshots/1/restore", token).status == 202
    product.settled(path, token)
    assert product.get(f"{path}/files/.claude/settings.json", token).body == b"1\n"
    assert product.get(f"{path}/files/a", token).status == 404

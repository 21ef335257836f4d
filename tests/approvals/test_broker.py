"""The broker, from outside: the whole product carries out exactly what was approved, once, after a snapshot."""

import time
import uuid

import pytest

from .conftest import ACTIONS

OVER = ("denied", "expired", "cancelled", "succeeded", "failed", "uncertain")


class Brokered:
    """An agent with a workspace of its own, and a reviewer."""

    def __init__(self, product):
        self.product = product
        self.agent = product.agent_token("broker-tests")
        self.reviewer = product.person_token("ruth", "reviewer")
        self.key = f"broker-{uuid.uuid4().hex[:8]}"
        self.path = f"/api/v1/workspaces/{self.key}"
        self.ok("POST", "/api/v1/workspaces", {"key": self.key}, expect=201)
        self.until("ready")

    def until(self, state):
        for _ in range(12):
            workspace = self.ok("GET", f"{self.path}?wait=5")
            if workspace["state"] == state and workspace["busy"] is None:
                return
        raise AssertionError(f"never {state}: {workspace}")

    def ok(self, method, path, body=None, *, token=None, expect=200):
        answer = self.product.call(method, path, token or self.agent, body)
        assert answer.status == expect, (method, path, answer.status, answer.body[:2000])
        return answer.json

    def ask(self, tool, arguments, *, expect=201, **more):
        wish = {"tool": tool, "arguments": arguments, "workspace": self.key, "mode": "broker", **more}
        return self.ok("POST", ACTIONS, wish, expect=expect)

    def decide(self, action, verdict="approve", **more):
        answer = {"verdict": verdict, "digest": action["digest"], **more}
        return self.ok("POST", f"{ACTIONS}/{action['id']}/decision", answer, token=self.reviewer)

    def over(self, action):
        for _ in range(12):
            action = self.ok("GET", f"{ACTIONS}/{action['id']}?wait=5")
            if action["status"] in OVER:
                return action
        raise AssertionError(f"not over: {action}")

    def file(self, name) -> bytes | None:
        answer = self.product.get(f"{self.path}/files/{name}", self.agent)
        assert answer.status in (200, 404), answer.body
        return answer.body if answer.status == 200 else None

    def put(self, name, content: bytes):
        answer = self.product.call("PUT", f"{self.path}/files/{name}", self.agent, content)
        assert answer.status in (200, 201, 204), answer.body

    def snapshots(self):
        return self.ok("GET", f"{self.path}/snapshots")["snapshots"]


@pytest.fixture(scope="module")
def desk(product):
    return Brokered(product)


def test_what_the_policy_allows_is_carried_out_after_a_snapshot(desk):
    action = desk.over(desk.ask("Write", {"file_path": "notes/a.txt", "content": "ä\n"}))
    assert (action["status"], action["tier"], desk.file("notes/a.txt")) == ("succeeded", "medium", "ä\n".encode())
    before = [s for s in desk.snapshots() if s["number"] == action["snapshot_before"]]
    assert [(s["kind"], s["label"]) for s in before] == [("action", f"before A-{action['number']}")]


def test_a_command_waits_for_its_yes_and_then_runs_once(desk):
    asked = desk.ask("Bash", {"command": "echo ran >> count; curl -s https://example.com; exit 3"})
    assert asked["status"] == "pending"
    time.sleep(1)
    assert desk.file("count") is None
    desk.decide(asked)
    action = desk.over(asked)
    assert (action["status"], action["result"]["exit_status"]) == ("failed", 3)
    assert desk.file("count") == b"ran\n"


def test_what_is_denied_never_runs(desk):
    asked = desk.ask("Bash", {"command": "touch denied; curl -s https://example.com"})
    desk.decide(asked, "deny", comment="no network here")
    time.sleep(1)
    assert (desk.over(asked)["status"], desk.file("denied")) == ("denied", None)


def test_an_edited_command_is_what_runs(desk):
    asked = desk.ask("Bash", {"command": "echo asked > edited; curl -s https://example.com"})
    desk.decide(asked, "edit", arguments={"command": "echo instead > edited"})
    action = desk.over(asked)
    assert (action["status"], action["decision"]["edited"], desk.file("edited")) == ("succeeded", True, b"instead\n")


def test_the_output_ends_in_the_result_and_is_a_command_of_the_workspace(desk):
    action = desk.over(desk.ask("Bash", {"command": "ls /workspace && echo 'there it is'"}))
    assert (action["status"], action["result"]["tail"].splitlines()[-1]) == ("succeeded", "there it is")


@pytest.mark.parametrize(
    ("held", "arguments", "then", "status"),
    [
        (b"a b a", {"old_string": "b", "new_string": "c"}, b"a c a", "succeeded"),
        (b"a b a", {"old_string": "a", "new_string": "x"}, b"a b a", "failed"),
        (b"a b a", {"old_string": "a", "new_string": "x", "replace_all": True}, b"x b x", "succeeded"),
        (b"a b a", {"old_string": "z", "new_string": "x"}, b"a b a", "failed"),
        (b"\xff\x00 b", {"old_string": "b", "new_string": "c"}, b"\xff\x00 c", "succeeded"),
        (None, {"old_string": "", "new_string": "new"}, b"new", "succeeded"),
    ],
)
def test_an_edit_of_a_file(desk, held, arguments, then, status):
    name = f"edit-{uuid.uuid4().hex[:6]}.txt"
    if held is not None:
        desk.put(name, held)
    action = desk.over(desk.ask("Edit", {"file_path": name, **arguments}))
    assert (action["status"], desk.file(name)) == (status, then)
    assert action["result"]["note"] != ""


def test_a_path_relative_to_cwd_and_one_from_the_root_are_the_same_file(desk):
    desk.over(desk.ask("Write", {"file_path": "b.txt", "content": "1"}, cwd="/workspace/sub"))
    desk.over(desk.ask("Write", {"file_path": "/workspace/sub/../sub/c.txt", "content": "2"}))
    assert (desk.file("sub/b.txt"), desk.file("sub/c.txt")) == (b"1", b"2")


@pytest.mark.parametrize(
    ("tool", "arguments", "more"),
    [
        ("WebFetch", {"url": "https://example.com"}, {}),
        ("Bash", {}, {}),
        ("Bash", {"command": 5}, {}),
        ("Bash", {"command": "ls", "run_in_background": True}, {}),
        ("Bash", {"command": "ls", "timeout": 0}, {}),
        ("Bash", {"command": "ls"}, {"cwd": "/etc"}),
        ("Bash", {"command": "ls"}, {"cwd": "/workspace/../etc"}),
        ("Write", {"file_path": "/etc/passwd", "content": "x"}, {}),
        ("Write", {"file_path": "../x", "content": "x"}, {}),
        ("Write", {"file_path": "/workspace", "content": "x"}, {}),
        ("Write", {"file_path": "a\0b", "content": "x"}, {}),
        ("Edit", {"file_path": "a", "old_string": "a"}, {}),
    ],
)
def test_what_the_broker_cannot_carry_out_is_refused(desk, tool, arguments, more):
    def known():
        return [row["id"] for row in desk.ok("GET", f"{ACTIONS}?workspace={desk.key}&limit=200")["actions"]]

    before = known()
    desk.ask(tool, arguments, expect=422, **more)
    assert known() == before


def test_a_link_out_of_the_workspace_is_not_followed(desk):
    link = desk.ask("Bash", {"command": "ln -s /etc out"})
    desk.decide(link)
    assert desk.over(link)["status"] == "succeeded"
    asked = desk.ask("Write", {"file_path": "out/handrail-was-here", "content": "x"})
    if asked["status"] == "pending":
        desk.decide(asked)
    action = desk.over(asked)
    assert (action["status"], "symlink" in action["result"]["note"]) == ("failed", True)


def test_the_agent_does_not_collect_what_the_runner_carries_out(desk):
    asked = desk.ask("Bash", {"command": "curl -s https://example.com"})
    desk.decide(asked)
    answer = desk.ok("POST", f"{ACTIONS}/{asked['id']}/consume", {"digest": asked["digest"]}, expect=409)
    assert answer["code"] == "brokered"


def test_a_stopped_workspace_keeps_the_card_open(desk):
    asked = desk.ask("Bash", {"command": "curl -s https://example.com"})
    desk.ok("POST", f"{desk.path}/stop", {}, expect=202)
    desk.until("stopped")
    answer = {"verdict": "approve", "digest": asked["digest"]}
    refused = desk.product.post(f"{ACTIONS}/{asked['id']}/decision", desk.reviewer, answer)
    assert (refused.status, "stopped" in refused.json["detail"]) == (409, True)
    assert desk.ok("GET", f"{ACTIONS}/{asked['id']}")["status"] == "pending"
    desk.ok("POST", f"{desk.path}/resume", {}, expect=202)
    desk.until("ready")
    desk.decide(asked)
    assert desk.over(asked)["status"] == "failed"

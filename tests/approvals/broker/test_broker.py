"""The broker, from outside: the whole product carries out exactly what was approved, once, after a snapshot."""

import re
import time
import uuid

import pytest

from approvals.broker.broker import next_content
from dashboard.problems import Problem
from tests.approvals.evidence.conftest import Person, text_of

from ..conftest import ACTIONS

OVER = ("denied", "expired", "cancelled", "succeeded", "failed", "uncertain")


class Brokered:
    """An agent with a workspace of its own, and a reviewer."""

    def __init__(self, product, **wish):
        self.product = product
        self.agent = product.agent_token("broker-tests")
        self.reviewer = product.person_token("ruth", "reviewer")
        self.lead = product.person_token("lea-of-files", "lead")
        self.key = f"broker-{uuid.uuid4().hex[:8]}"
        self.path = f"/api/v1/workspaces/{self.key}"
        self.ok("POST", "/api/v1/workspaces", {"key": self.key, **wish}, expect=201)
        self.settles("ready")

    def settles(self, state):
        for _ in range(36):  # an emulated guest boots slowly on a busy machine
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

    def decide(self, action, verdict="approve", *, expect=200, **more):
        answer = {"verdict": verdict, "digest": action["digest"], **more}
        return self.ok("POST", f"{ACTIONS}/{action['id']}/decision", answer, token=self.reviewer, expect=expect)

    def over(self, action):
        for _ in range(12):
            action = self.ok("GET", f"{ACTIONS}/{action['id']}?wait=5")
            if action["status"] in OVER:
                return action
        raise AssertionError(f"not over: {action}")

    def file(self, name) -> bytes | None:
        """Read a file as a person does, also one with secrets; None if there is none."""
        answer = self.product.get(f"{self.path}/files/{name}", self.lead)
        assert answer.status in (200, 404), answer.body
        return answer.body if answer.status == 200 else None

    def put(self, name, content: bytes):
        """Write a file as a person does, also one that agents ask for."""
        answer = self.product.call("PUT", f"{self.path}/files/{name}", self.lead, content)
        assert answer.status in (200, 201, 204), answer.body

    def snapshots(self):
        return self.ok("GET", f"{self.path}/snapshots")["snapshots"]


@pytest.fixture(scope="module")
def desk(product):
    return Brokered(product)


def test_an_allowed_action_is_carried_out_after_a_snapshot(desk):
    action = desk.over(desk.ask("Write", {"file_path": "notes/a.txt", "content": "ä\n"}))
    assert (action["status"], action["tier"], desk.file("notes/a.txt")) == ("succeeded", "medium", "ä\n".encode())
    before = [s for s in desk.snapshots() if s["number"] == action["snapshot_before"]]
    assert [(s["kind"], s["label"]) for s in before] == [("action", f"before A-{action['number']} ({action['title']})")]


def test_a_command_waits_for_its_yes_and_then_runs_once(desk):
    asked = desk.ask("Bash", {"command": "echo ran >> count; curl -s https://example.com; exit 3"})
    assert asked["status"] == "pending"
    time.sleep(1)
    assert desk.file("count") is None
    desk.decide(asked)
    action = desk.over(asked)
    assert (action["status"], action["result"]["exit_status"]) == ("failed", 3)
    assert desk.file("count") == b"ran\n"


def test_a_denied_action_never_runs(desk):
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
def test_a_call_that_cannot_be_brokered_is_refused(desk, tool, arguments, more):
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
    desk.settles("stopped")
    answer = {"verdict": "approve", "digest": asked["digest"]}
    refused = desk.product.post(f"{ACTIONS}/{asked['id']}/decision", desk.reviewer, answer)
    assert (refused.status, "stopped" in refused.json["detail"]) == (409, True)
    assert desk.ok("GET", f"{ACTIONS}/{asked['id']}")["status"] == "pending"
    desk.ok("POST", f"{desk.path}/resume", {}, expect=202)
    desk.settles("ready")
    desk.decide(asked)
    assert desk.over(asked)["status"] == "failed"


def test_the_log_names_the_agent_and_who_approved(desk):
    asked = desk.ask("Bash", {"command": "touch named; curl -s https://example.com"})
    desk.decide(asked)
    desk.over(asked)
    unasked = desk.over(desk.ask("Write", {"file_path": "unasked.txt", "content": "1"}))
    agent = asked["agent"]
    events = _events(desk)
    [policy] = {e["actor"]["label"] for e in events if e["subject"]["id"] == unasked["id"]} - {agent}
    assert re.fullmatch(r"policy \d+", policy)
    for action, by in ((asked, "ruth"), (unasked, policy)):
        mine = [e for e in events if e["subject"]["id"] == action["id"]]
        carried = [e for e in mine if e["verb"] in ("action.consumed", "action.succeeded", "action.failed")]
        assert [(e["actor"]["label"], e["data"]["approved_by"]) for e in carried] == [(agent, by)] * 2
        before = [e for e in events if e["data"].get("label") == f"before A-{action['number']} ({action['title']})"]
        assert [(e["verb"], e["actor"]["label"], e["data"]["approved_by"]) for e in before] == [
            ("snapshot.taken", agent, by)
        ]
    ended = [e for e in events if e["verb"] == "command.ended"][-1]
    assert (ended["actor"]["type"], ended["data"]["approved_by"]) == ("agent", "ruth")


def test_commands_and_snapshots_name_the_agent_and_who_approved(desk, product):
    asked = desk.ask("Bash", {"command": "touch shown; curl -s https://example.com"})
    desk.decide(asked)
    desk.over(asked)
    person = Person(product)
    team = next(iter(desk.ok("GET", "/api/v1/me")["teams"]))
    said = f"{asked['agent']}, approved by ruth"
    assert said in text_of(person.get(f"/w/{team}/{desk.key}/checks/"))
    assert said in text_of(person.get(f"/w/{team}/{desk.key}/snapshots/"))


def test_what_handrail_does_for_an_agent_is_logged_as_the_agents(product):
    own = Brokered(product)
    action = own.ok("DELETE", own.path, expect=202)["action"]
    own.decide(action)
    own.over(action)
    trashed = [e for e in _events(own) if e["verb"] == "workspace.trashed"][-1]
    assert (trashed["actor"]["type"], trashed["data"]["approved_by"]) == ("agent", "ruth")


def test_what_could_not_be_carried_out_is_logged_as_the_agents(desk, product):
    """The agent is paused between its question and the answer."""
    asked = [desk.ask("Bash", {"command": "curl -s https://example.com/paused"})]
    asked.append(desk.ok("DELETE", desk.path, expect=202)["action"])
    pause = "from dashboard.models import Agent; from django.utils import timezone;"
    pause += "Agent.objects.filter(name='broker-tests').update(paused_at=%s)"
    product.shell(pause % "timezone.now()")
    try:
        for action in asked:
            desk.decide(action)
        for _ in range(100):
            found = [desk.ok("GET", f"{ACTIONS}/{action['id']}", token=desk.reviewer) for action in asked]
            if all(action["status"] in OVER for action in found):
                break
            time.sleep(0.2)
    finally:
        product.shell(pause % "None")
    assert found[0]["result"]["note"] == "It did not run: broker-tests is paused."
    for action in found:
        [ended] = [
            e for e in _events(desk) if e["subject"]["id"] == action["id"] and e["verb"] == f"action.{action['status']}"
        ]
        assert (ended["actor"]["type"], ended["actor"]["label"]) == ("agent", asked[0]["agent"])
        assert ended["data"]["approved_by"] == "ruth"


def _events(desk) -> list[dict]:
    """All events of the team, oldest first."""
    found, cursor = [], 0
    while page := desk.ok("GET", f"/api/v1/events?after={cursor}&limit=1000", token=desk.reviewer)["events"]:
        found += page
        cursor = page[-1]["id"]
    return found


def test_an_edit_of_a_file_that_is_not_there_says_so():
    with pytest.raises(Problem, match="There is no such file to edit"):
        next_content({"old_string": "a", "new_string": "b"}, None)
    with pytest.raises(Problem, match="The text to replace is not in the file"):
        next_content({"old_string": "a", "new_string": "b"}, b"")
    assert next_content({"old_string": "", "new_string": "b"}, None) == b"b"

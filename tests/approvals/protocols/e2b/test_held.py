"""What an SDK asks for that needs a person: waited for, denied, named by its card; and what is not the caller's."""

import json
import threading
import uuid
from urllib.request import Request, urlopen

import pytest

from approvals.protocols.e2b.watching import MOST_OF_ONE
from tests.support.desk import Desk
from tests.support.product import Product
from tests.support.waiting import until


def risky() -> str:
    """Return a command that is asked for; what was denied before would be refused at once."""
    return f"git push origin {uuid.uuid4().hex}"


@pytest.fixture(scope="module")
def asking(tmp_path_factory):
    """A product whose agents' programs nothing holds, so that what the policy does not allow is asked for."""
    running = Product(tmp_path_factory.mktemp("e2b-asking"), HANDRAIL_HELD="0", HANDRAIL_UNHELD="ask")
    try:
        running.start()
        yield running
    finally:
        running.clean_up()


class Ground:
    """An agent with a sandbox, and a lead."""

    def __init__(self, product):
        self.product, self.token = product, product.agent_token("e2b-held")
        self.agent = Desk(product, self.token)
        self.lead = Desk(product, product.person_token("e2b-lead", "lead"))
        self.key = self.agent.create()["key"]

    def pending(self) -> list[dict]:
        return self.lead.get("/actions?status=pending").json["actions"]

    def decide(self, verdict: str, comment="Because."):
        [row] = until(self.pending)
        action = self.lead.get(f"/actions/{row['id']}").json
        answer = {"verdict": verdict, "digest": action["digest"], "comment": comment}
        self.lead.post(f"/actions/{row['id']}/decision", answer, expect=200)

    def envd(self, name: str, message: dict, *, kind="application/json", key="", token="", **headers):
        """One call of envd's, without an SDK."""
        sent = self.headers(kind, key or self.key, token or self.token) | headers
        data = self.framed(message) if "connect" in kind else json.dumps(message).encode()
        return self.product.call("POST", f"/e2b/envd/{name}", "", data, headers=sent)

    def headers(self, kind: str, key: str, token: str) -> dict:
        return {"X-Access-Token": token, "E2b-Sandbox-Id": key, "Content-Type": kind}

    def framed(self, message: dict) -> bytes:
        data = json.dumps(message).encode()
        return b"\0" + len(data).to_bytes(4, "big") + data


@pytest.fixture(scope="module")
def ground(asking):
    return Ground(asking)


def in_background(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    return thread, found


def test_a_held_command_runs_once_it_is_approved(sdk, ground, asking):
    wanted = ("attempt", "run", ground.key, 'bash -c "$(echo echo approved)"', "120")
    thread, found = in_background(lambda: sdk(asking, ground.token, *wanted))
    ground.decide("approve")
    thread.join(200)
    assert found == [{"stdout": "approved\n"}]


def test_a_denied_command_is_an_error_with_the_card_and_the_words(sdk, ground, asking):
    wanted = ("attempt", "run", ground.key, risky(), "120")
    thread, found = in_background(lambda: sdk(asking, ground.token, *wanted))
    ground.decide("deny", "Not on Fridays.")
    thread.join(200)
    [seen] = found
    assert "Not on Fridays." in seen["words"], seen
    assert "/actions/" in seen["words"], seen


def test_a_command_that_nobody_decides_in_time_is_an_error_with_the_card(sdk, ground, asking):
    seen = sdk(asking, ground.token, "attempt", "run", ground.key, risky(), "5")
    [row] = ground.pending()
    assert f"/actions/{row['id']}/" in seen["words"], seen
    assert "A person has to allow this first" in seen["words"], seen
    ground.decide("deny")


def test_a_write_of_a_protected_file_is_an_error_with_the_card(sdk, ground, asking):
    wanted = ("attempt", "write", ground.key, ".git/hooks/post-commit", f"true {uuid.uuid4().hex}")
    seen = sdk(asking, ground.token, *wanted)
    assert "/actions/" in seen["words"], seen
    ground.decide("deny")
    assert b"post-commit" not in ground.lead.run(ground.key, "ls -AR")


def test_a_secret_is_not_read_and_its_file_not_removed_unasked(sdk, ground, asking):
    secret = f".env.{uuid.uuid4().hex}"
    ground.lead.run(ground.key, f"echo canary > {secret}")
    seen = sdk(asking, ground.token, "attempt", "read", ground.key, secret)
    assert "secrets" in seen["words"]
    assert "canary" not in json.dumps(seen)
    told = ground.envd("filesystem.Filesystem/Remove", {"path": secret}, **{"Connect-Timeout-Ms": "0"})
    assert (told.status, told.json["code"]) == (403, "permission_denied")
    ground.decide("deny")
    assert ground.lead.run(ground.key, f"cat {secret}") == b"canary\n"


def test_a_terminal_that_nothing_holds_is_asked_for(ground):
    wish = {"process": {"cmd": "/bin/bash", "args": ["-i", "-l"]}, "pty": {"size": {"cols": 80, "rows": 24}}}
    limit = {"Connect-Timeout-Ms": "1000"}
    told = ground.envd("process.Process/Start", wish, kind="application/connect+json", **limit)
    assert told.status == 200
    assert json.loads(told.body[5:])["error"]["code"] == "permission_denied"
    ground.decide("deny")


def test_folders_are_made_by_commands_that_the_policy_judges(ground):
    told = ground.envd("filesystem.Filesystem/MakeDir", {"path": "one/two"})
    assert (told.status, told.json["entry"]["path"]) == (200, "/workspace/one/two")
    assert told.json["entry"]["type"] == "FILE_TYPE_DIRECTORY"
    moved = ground.envd("filesystem.Filesystem/Move", {"source": "one/two", "destination": "three/four"})
    assert moved.json["entry"]["path"] == "/workspace/three/four"
    rows = [row["command"] for row in ground.lead.get(f"/workspaces/{ground.key}/commands").json["commands"]]
    assert "mkdir -p -- /workspace/one/two" in rows


def test_a_person_s_terminal_takes_no_input_of_an_agent(ground):
    terminal = ground.lead.post(f"/workspaces/{ground.key}/terminals").json["id"]
    message = {"process": {"pid": uuid.UUID(terminal).int & 0x7FFFFFFF}}
    for name, more in (
        ("SendInput", {"input": {"pty": "bHM="}}),
        ("Update", {"pty": {"size": {"cols": 9, "rows": 9}}}),
    ):
        told = ground.envd(f"process.Process/{name}", message | more)
        assert (told.status, told.json["code"]) == (404, "not_found")


def test_a_sandbox_of_another_team_is_not_found(sdk, ground, asking):
    stranger = asking.agent_token("e2b-stranger", team="other")
    seen = sdk(asking, stranger, "attempt", "find", ground.key)
    assert seen["error"] in ("SandboxNotFoundException", "SandboxNotFoundError", "NotFoundException"), seen
    told = ground.envd("filesystem.Filesystem/Stat", {"path": "."}, token=stranger)
    assert (told.status, told.json["code"]) == (502, "unavailable")
    assert "was not found" in told.json["message"]


@pytest.mark.parametrize(
    ("message", "headers", "words"),
    [
        ({"process": {"cmd": "ls"}, "stdin": True}, {}, "has no input"),
        ({"process": {"cmd": "ls"}}, {"Authorization": "Basic cm9vdDo="}, "own user"),
        ({"process": {"cmd": "ls", "args": [1]}}, {}, "texts"),
        ({"process": {"cmd": "ls", "cwd": 1}}, {}, "texts"),
        ({"process": {"cmd": "ls", "envs": {"A": 1}}}, {}, "texts"),
        ({"process": {"cmd": "ls", "envs": []}, "pty": "big"}, {}, "pty is a JSON object"),
        ({"process": "ls"}, {}, "process is a JSON object"),
        ({"process": {"cmd": "bash", "args": ["-c", "a\0b"]}}, {}, "NUL"),
        ({"process": {"cmd": "ls"}}, {"Connect-Timeout-Ms": "soon"}, "milliseconds"),
        ({"process": {"cmd": "ls"}}, {"X-Access-Token": "hr_nobody"}, "no valid token"),
        ({"process": {"cmd": "ls"}}, {"E2b-Sandbox-Id": "nowhere"}, "was not found"),
    ],
)
def test_what_is_not_taken_is_said_in_words(ground, message, headers, words):
    told = ground.envd("process.Process/Start", message, kind="application/connect+json", **headers)
    assert (told.status, told.body[0]) == (200, 2)
    assert words in json.loads(told.body[5:])["error"]["message"]
    assert not ground.pending()


def test_a_list_of_all_folders_leaves_out_what_is_in_a_secret_one(ground):
    ground.lead.run(ground.key, "mkdir -p deep/er deep/.ssh && touch deep/er/file deep/.ssh/id_rsa")
    answer = ground.envd("filesystem.Filesystem/ListDir", {"path": "deep", "depth": 5})
    names = [entry["path"].removeprefix("/workspace/deep/") for entry in answer.json["entries"]]
    assert names == [".ssh", "er", "er/file"]
    refused = ground.envd("filesystem.Filesystem/ListDir", {"path": "deep/.ssh"})
    assert (refused.status, refused.json["reason"]) == (403, "secret_path")


def test_one_token_keeps_no_more_than_some_watchers(ground):
    made = [ground.envd("filesystem.Filesystem/CreateWatcher", {"path": "."}) for _ in range(MOST_OF_ONE + 1)]
    assert [each.status for each in made] == [200] * MOST_OF_ONE + [429]
    for each in made[:-1]:
        assert ground.envd("filesystem.Filesystem/RemoveWatcher", each.json).status == 200
    assert ground.envd("filesystem.Filesystem/CreateWatcher", {"path": "."}).status == 200


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("process.Process/Start", {"process": {"cmd": "sleep", "args": ["600"]}}),
        ("filesystem.Filesystem/WatchDir", {"path": "."}),
    ],
)
def test_a_stream_ends_when_its_token_is_revoked(ground, asking, name, message):
    token, admin = asking.agent_token("e2b-leaves"), Desk(asking, asking.person_token("e2b-admin", "admin"))
    sent = ground.headers("application/connect+json", Desk(asking, token).create()["key"], token)
    request = Request(f"{asking.url}/e2b/envd/{name}", ground.framed(message), asking.desk_host | sent)
    with urlopen(request, timeout=60) as answer:
        assert b'"start"' in frame_of(answer)
        [row] = [row for row in admin.get("/tokens").json["tokens"] if token.startswith(row["prefix"])]
        admin.post(f"/tokens/{row['id']}/revoke", expect=200)
        last = list(iter(lambda: frame_of(answer), b""))[-1]
    assert json.loads(last)["error"]["code"] == "unauthenticated"


def frame_of(answer) -> bytes:
    """Return the next message of a stream; b"" at its end."""
    head = answer.read(5)
    return answer.read(int.from_bytes(head[1:], "big")) if head else b""


def test_a_path_outside_of_the_workspace_is_refused(ground):
    for path in ("../etc/passwd", "/etc/passwd", "/workspaces/x", "a/../../x"):
        told = ground.envd("filesystem.Filesystem/Stat", {"path": path})
        assert (told.status, told.json["code"]) == (422, "invalid_argument"), path


def test_binary_messages_are_refused(ground):
    told = ground.envd("filesystem.Filesystem/Stat", {}, kind="application/proto")
    assert (told.status, told.json["code"]) == (415, "invalid_argument")

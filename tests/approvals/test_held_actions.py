"""Brokered actions that the kernel holds: they run in the envelope of their verdict, and say what it refused."""

import pytest

from tests.approvals.broker.test_broker import Brokered
from tests.support.product import Product
from tests.support.visitor import Visitor
from workspaces.envelope.envelope import MEDIUM


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    product = Product(tmp_path_factory.mktemp("held") / "home", HANDRAIL_HELD="1")
    product.start()
    yield Brokered(product)
    product.clean_up()


def run(desk, command):
    return desk.over(desk.ask("Bash", {"command": command}))


def test_a_program_that_the_policy_does_not_know_runs_unasked_in_the_medium_envelope(desk):
    action = run(desk, 'python3 -c \'open("made", "w").write("x")\'')
    assert (action["status"], action["tier"], action["votes"]) == ("succeeded", "medium", 0)
    assert action["envelope"] | {"seconds": None} == MEDIUM.to_json()
    assert desk.file("made") == b"x"


def test_a_refusal_of_the_kernel_is_in_the_result(desk):
    desk.put(".env", b"KEY=canary\n")
    code = (
        "import socket\n"
        "print(open('.env').read())\n"
        "try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "except OSError: pass\n"
        "open('/home/agent/.bashrc', 'a')\n"
    )
    desk.put("probe.py", code.encode())
    action = run(desk, "python3 probe.py")
    assert action["status"] == "failed"
    assert "canary" not in action["result"]["tail"]
    assert {"kind": "socket", "what": "IPv4 UDP"} in action["blocked"]
    assert {"kind": "write", "what": "/home/agent/.bashrc"} in action["blocked"]
    assert "It ran held. Refused:" in action["result"]["note"]


def test_a_host_that_the_list_lacks_is_named(desk):
    action = run(desk, "python3 -c 'import urllib.request; urllib.request.urlopen(\"http://example.org/\")'")
    assert action["status"] == "failed"
    assert {"kind": "connect", "what": "example.org:80"} in action["blocked"]


def test_what_a_person_approved_gets_the_paths_that_the_card_named(desk):
    desk.put("hook", b"true\n")
    run(desk, "git init -q .")
    asked = desk.ask("Bash", {"command": "cp hook .git/hooks/post-commit"})
    assert asked["status"] == "pending"
    desk.decide(asked)
    assert desk.over(asked)["status"] == "succeeded"
    assert desk.file(".git/hooks/post-commit") is not None


def test_a_command_of_an_agent_is_held_and_one_of_a_person_is_not(desk):
    desk.put(".env", b"KEY=canary\n")
    person = desk.product.person_token("lena", "lead")
    for token, envelope, exit_status in ((desk.agent, MEDIUM.to_json(), 1), (person, None, 0)):
        wish = {"command": "grep -q canary .env"}
        command = desk.ok("POST", f"{desk.path}/commands", wish, token=token, expect=201)
        ended = desk.ok("GET", f"/api/v1/commands/{command['id']}?wait=20", token=token)
        assert (ended["envelope"], ended["exit_status"]) == (envelope, exit_status)


def test_its_command_says_what_held_it(desk):
    run(desk, "echo hello")
    command = desk.ok("GET", f"{desk.path}/commands")["commands"][0]
    assert (command["command"], command["envelope"]["network"], command["blocked"]) == ("echo hello", [], [])


def test_the_card_names_the_envelope_and_an_approval_can_leave_it_out(desk):
    run(desk, "git init -q .")
    asked = desk.ask("Bash", {"command": "git config user.name agent && cat .git/config"})
    visitor = Visitor.named(desk.product, "ruth")
    card = visitor.get(f"/actions/{asked['id']}/")
    assert "a private /tmp" in card
    assert "Approve without an envelope" in card
    visitor.post(f"/actions/{asked['id']}/approve/", {"digest": asked["digest"], "envelope": "none"})
    assert desk.over(asked)["status"] == "succeeded"
    assert b"agent" in desk.file(".git/config")
    (command, *_) = desk.ok("GET", f"{desk.path}/commands")["commands"]
    assert command["envelope"] is None
    events = desk.ok("GET", "/api/v1/events?limit=1000", token=desk.reviewer)["events"]
    approvals = [one for one in events if one["verb"] == "action.approved" and one["subject"]["id"] == asked["id"]]
    assert [one["data"].get("envelope") for one in approvals] == ["none"]
    assert "No envelope" in visitor.get(f"/actions/{asked['id']}/")


def test_only_an_approval_of_a_command_takes_the_envelope_away(desk):
    asked = desk.ask("Write", {"file_path": "/workspace/.github/workflows/ci.yml", "content": "on: push"})
    desk.decide(asked, expect=422, envelope="none")
    asked = desk.ask("Bash", {"command": "git push origin main"})
    desk.decide(asked, "deny", expect=422, envelope="none")
    assert desk.ok("GET", f"/api/v1/actions/{asked['id']}")["status"] == "pending"

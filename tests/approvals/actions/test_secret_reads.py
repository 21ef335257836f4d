"""A person lets a held command read a secret file: it reads the values, and nobody sees them in its output."""

import base64
import os
import signal
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.approvals.broker.test_broker import Brokered
from tests.support.held_folder import HeldFolder
from tests.support.product import Product
from tests.support.waiting import until

PROGRAM = """
import base64, socket, sys
text = open(".env").read()
print("found" if "sk-live-12345678" in text else "not there")
print(text)
print(base64.b64encode(text.split("=", 1)[1].strip().encode()).decode())
sys.stdout.flush()
print(text, file=sys.stderr)
"""
ENV = "API_KEY=sk-live-12345678\n"
TEST = "python3 tests.py"


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    product = Product(tmp_path_factory.mktemp("reads") / "home", HANDRAIL_HELD="1")
    product.start()
    yield Brokered(product)
    product.clean_up()


def run(desk, command, **more):
    return desk.over(desk.ask("Bash", {"command": command}, **more))


def let_read(desk, action, path=".env", *, expect=201, token=None):
    address = f"/api/v1/actions/{action['id']}/let-read"
    return desk.ok("POST", address, {"path": path}, token=token or desk.reviewer, expect=expect)


@pytest.fixture
def masked(desk):
    """An action that met the mask of .env; its program tells whether it read the value, and prints it."""
    desk.put(".env", ENV.encode())
    desk.put("tests.py", PROGRAM.encode())
    command = f"{TEST} {uuid.uuid4().hex}"
    action = run(desk, command)
    assert {"kind": "read", "what": "/workspace/.env"} in action["blocked"]
    assert "not there" in action["result"]["tail"]
    return action


def command_of(action):
    return action["arguments"]["command"]


def test_the_command_reads_the_file_and_its_output_shows_no_value(desk, masked):
    let_read(desk, masked)
    action = run(desk, command_of(masked))
    told = action["result"]["tail"]
    assert (action["status"], action["blocked"]) == ("succeeded", [])
    assert told.startswith("found")
    assert told.count("[secret API_KEY]") == 3
    assert "sk-live" not in told
    assert base64.b64encode(b"sk-live-12345678").decode()[:20] not in told
    assert action["envelope"]["redacted"] == ["/workspace/.env"]
    assert "hosts" not in action["envelope"]["network"]
    assert "lets it read .env" in " ".join(action["reasons"])


def test_no_other_command_reads_it_and_none_in_another_folder(desk, masked):
    let_read(desk, masked)
    assert "not there" in run(desk, f"{command_of(masked)} other")["result"]["tail"]
    desk.put("sub/tests.py", PROGRAM.replace('".env"', '"../.env"').encode())
    assert "not there" in run(desk, command_of(masked), cwd="/workspace/sub")["result"]["tail"]


def test_only_a_person_who_may_decide_gives_it_and_only_for_a_file_that_was_masked(desk, masked):
    viewer = desk.product.person_token("vera", "viewer")
    let_read(desk, masked, expect=403, token=viewer)
    let_read(desk, masked, expect=403, token=desk.agent)
    for path in ("tests.py", "../.env", "/workspace/.env", ".env.other", ""):
        let_read(desk, masked, path, expect=422)
    assert "not there" in run(desk, command_of(masked))["result"]["tail"]


def test_a_permission_to_read_a_secret_is_listed_with_the_grants_until_it_is_revoked(desk, masked):
    grant = let_read(desk, masked)
    listed = desk.ok("GET", "/api/v1/grants", token=desk.reviewer)["grants"]
    assert grant["id"] in [each["id"] for each in listed]
    desk.ok("POST", f"/api/v1/grants/{grant['id']}/revoke", token=desk.reviewer)
    assert "not there" in run(desk, command_of(masked))["result"]["tail"]


def test_a_grant_to_read_approves_no_call(desk, masked):
    let_read(desk, masked)
    asked = desk.ask("Bash", {"command": "git push origin main"})
    assert asked["status"] == "pending"
    desk.decide(asked, "deny")
    asked = desk.ask("Write", {"file_path": ".github/workflows/ci.yml", "content": "on:"})
    assert asked["status"] == "pending"
    desk.decide(asked, "deny")


def test_a_file_whose_values_cannot_be_parsed_stays_masked(desk, masked):
    let_read(desk, masked)
    desk.put(".env", ENV.encode() + b"A=\xff\xfe\n")
    action = run(desk, command_of(masked))
    assert "not there" in action["result"]["tail"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, ordinary_user):
    made = HeldFolder(tmp_path_factory.mktemp("desk") / "home", ordinary_user if os.geteuid() == 0 else None)
    (made.folder / "tests.py").write_text(PROGRAM)
    (made.folder / ".env").write_text(ENV)
    yield made
    made.close()


@pytest.fixture
def let(folder):
    """Let a command read .env after it has met the mask; return what the desk says of its first call."""
    reviewer = folder.product.person_token("rita", "lead")

    def give(command):
        answer = folder.calls.ask(command)["updatedInput"]["command"]
        first = folder.calls.run(answer)
        assert b"sk-live" not in first.stdout
        folder.calls.report(answer, first.stdout.decode())
        rows = folder.product.get("/api/v1/actions?limit=20", reviewer).json["actions"]
        whole = [folder.product.get(f"/api/v1/actions/{row['id']}", reviewer).json for row in rows]
        action = next(each for each in whole if each["arguments"].get("command") == command)
        given = folder.product.post(f"/api/v1/actions/{action['id']}/let-read", reviewer, {"path": ".env"})
        assert given.status == 201, given.body
        return action

    return give


def again(folder, command):
    return folder.calls.run(folder.calls.ask(command)["updatedInput"]["command"])


def test_in_a_connected_folder_the_agent_gets_redacted_output(folder, let):
    command = f"{TEST}; exit 3"
    assert {"kind": "read", "what": str(folder.folder / ".env")} in let(command)["blocked"]
    done = again(folder, command)
    assert done.returncode == 3
    assert b"found" in done.stdout
    assert b"sk-live" not in done.stdout
    assert done.stdout.count(b"[secret API_KEY]") == 3


def test_a_large_output_comes_whole_and_a_job_in_the_background_keeps_nobody_waiting(folder, let):
    count = 3_000_000
    (folder.folder / "large.py").write_text(f"print(open('.env').read()); print('x' * {count})")
    job = folder.folder / "job.sh"
    job.write_text("exit 0")
    command = "python3 large.py && (sh job.sh & echo $! > pid)"
    let(command)
    job.write_text("exec sleep 300")
    started = time.monotonic()
    changed = folder.calls.ask(command)["updatedInput"]["command"]
    folder.calls.run(f"{{ {changed}; }} > out 2>&1")
    assert time.monotonic() - started < 200  # not until the job's end
    os.kill(int((folder.folder / "pid").read_text()), signal.SIGTERM)
    shown = (folder.folder / "out").read_bytes()
    assert shown.count(b"x") == count
    assert b"[secret API_KEY]" in shown


def test_a_call_that_asks_to_leave_the_box_is_answered_with_the_file(folder):
    product, reviewer = folder.product, folder.product.person_token("rita", "lead")
    command = f"{TEST} left"
    answer = folder.calls.ask(command)["updatedInput"]["command"]
    folder.calls.report(answer, folder.calls.run(answer).stdout.decode())
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(folder.calls.ask, command, dangerouslyDisableSandbox=True)
        card = until(lambda: product.get("/api/v1/actions?status=pending", reviewer).json["actions"])[0]
        given = product.post(f"/api/v1/actions/{card['id']}/let-read", reviewer, {"path": ".env"})
        assert given.status == 201, given.body
        told = asked.result(60)
    assert told["permissionDecision"] == "deny"
    assert ".env may be read" in told["permissionDecisionReason"]
    assert b"found" in again(folder, command).stdout

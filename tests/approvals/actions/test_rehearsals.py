"""Try it first: a command on a copy of the files, shown, and applied to the byte or forgotten."""

import html
import re
import time

import pytest

from tests.approvals.broker.test_broker import Brokered
from tests.support.product import Product
from tests.support.visitor import Visitor

from ..conftest import ACTIONS

ASKS = "false && git push origin main; "  # the policy asks, and it never runs
FILES = 300
LIMIT = 64_000_000  # bytes of a workspace


class Rehearsing(Brokered):
    """Commands that a person must allow, tried first."""

    def ask_for(self, command):
        asked = self.ask("Bash", {"command": ASKS + command})
        assert asked["status"] == "pending", asked
        return asked

    def rehearse(self, asked, *, token=None):
        self.ok("POST", f"{ACTIONS}/{asked['id']}/rehearse", token=token or self.reviewer, expect=202)
        deadline = time.monotonic() + 300  # some take long on a busy machine
        while time.monotonic() < deadline:
            found = self.ok("GET", f"{ACTIONS}/{asked['id']}")["rehearsal"]
            if found["status"] != "running":
                return found
            time.sleep(0.25)
        raise AssertionError(found)

    def run(self, command):
        """As a person, whose commands are not held."""
        lead = self.product.person_token("lena", "lead")
        command = self.ok("POST", f"{self.path}/commands", {"command": command}, token=lead, expect=201)
        ended = self.ok("GET", f"/api/v1/commands/{command['id']}?wait=60", token=lead)
        assert ended["exit_status"] == 0, ended

    @property
    def folder(self):
        (tree,) = self.product.home.glob("workspaces/*/tree")
        return tree.parent

    def content(self):
        """Everything in the tree: {path: (mode, bytes)}."""
        tree = self.folder / "tree"
        return {
            str(path.relative_to(tree)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else b"")
            for path in tree.rglob("*")
        }

    def leftovers(self):
        """What rehearsals have left on the disk."""
        runs = [path.name for path in self.product.home.glob("runs/rehearse-*")]
        return runs + [path.name for path in self.folder.glob("rehearsals/*")]


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    product = Product(
        tmp_path_factory.mktemp("rehearsals") / "home", HANDRAIL_HELD="1", HANDRAIL_WORKSPACE_BYTES=str(LIMIT)
    )
    product.start()
    yield Rehearsing(product)
    product.clean_up()


def test_a_rehearsal_is_applied_as_it_was_shown(desk):
    desk.run(f"mkdir -p build src; for n in $(seq {FILES}); do echo $n > src/$n.c; echo old $n > build/$n.o; done")
    script = f'rm -rf build; mkdir build; for n in $(seq {FILES}); do cp src/$n.c build/$n.o; done; echo "made $n"'
    asked = desk.ask_for(script + "; echo $RANDOM$RANDOM | tee build/stamp")
    before = desk.content()
    found = desk.rehearse(asked)
    assert (found["status"], found["exit_status"], found["not_applied_because"]) == ("done", 0, "")
    made, stamp = found["output"].splitlines()
    assert made == f"made {FILES}"
    assert found["change_count"] == FILES + 1
    assert desk.content() == before
    assert desk.leftovers() == []
    desk.decide(asked, apply="rehearsal", rehearsal=found["id"])
    action = desk.over(asked)
    assert (action["status"], action["result"]["exit_status"], action["result"]["applied"]) == (
        "succeeded",
        0,
        "rehearsal",
    )
    assert action["result"]["tail"] == found["output"]
    assert action["rehearsal"]["status"] == "applied"
    after = desk.content()
    changed = {path for path in before | after if before.get(path) != after.get(path)}
    assert changed == {"build/stamp", *(f"build/{n}.o" for n in range(1, FILES + 1))}
    assert (after["build/7.o"][1], after["build/stamp"][1]) == (b"7\n", f"{stamp}\n".encode())
    # It did not run again: no command of the workspace stands for it.
    assert script not in str(desk.ok("GET", f"{desk.path}/commands")["commands"][0])


def test_a_result_that_no_longer_fits_is_refused(desk):
    desk.put("notes", b"one\n")
    asked = desk.ask_for("echo two >> notes")
    desk.rehearse(asked)
    desk.put("notes", b"meanwhile\n")
    refused = desk.decide(asked, expect=409, apply="rehearsal")
    assert refused["code"] == "rehearsal_outdated"
    now = desk.ok("GET", f"{ACTIONS}/{asked['id']}")
    assert (now["status"], now["rehearsal"]["status"]) == ("pending", "outdated")
    found = desk.rehearse(asked)
    desk.decide(asked, apply="rehearsal", rehearsal=found["id"])
    desk.over(asked)
    assert desk.file("notes") == b"meanwhile\ntwo\n"


def test_a_denial_deletes_the_rehearsal(desk):
    asked = desk.ask_for("echo made > denied-later")
    found = desk.rehearse(asked)
    assert [change["path"] for change in found["changes"]] == ["denied-later"]
    desk.decide(asked, "deny")
    assert desk.ok("GET", f"{ACTIONS}/{asked['id']}")["rehearsal"] is None
    assert desk.file("denied-later") is None
    assert desk.leftovers() == []


def test_a_denial_ends_a_running_rehearsal(desk):
    asked = desk.ask_for("touch started; sleep 300")
    desk.ok("POST", f"{ACTIONS}/{asked['id']}/rehearse", expect=202)
    assert desk.ok("POST", f"{ACTIONS}/{asked['id']}/rehearse", expect=409)["code"] == "rehearsing"
    time.sleep(1)
    desk.decide(asked, "deny")
    deadline = time.monotonic() + 30
    while desk.leftovers() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert desk.leftovers() == []


def test_a_rehearsal_beyond_its_time_is_ended_and_cannot_be_applied(desk):
    asked = desk.ask("Bash", {"command": f"{ASKS}echo half > half; sleep 60; echo whole > half", "timeout": 2000})
    found = desk.rehearse(asked)
    assert (found["status"], found["change_count"]) == ("done", 1)
    assert "not complete" in found["not_applied_because"]
    refused = desk.decide(asked, expect=409, apply="rehearsal")
    assert refused["code"] == "no_rehearsal"
    desk.decide(asked, "deny")


def test_a_rehearsal_that_outgrows_the_workspace_is_ended(desk):
    asked = desk.ask_for(f"head -c {2 * LIMIT} /dev/zero > huge; sleep 300")
    found = desk.rehearse(asked)
    assert (found["status"], "outgrew" in found["note"]) == ("failed", True)
    assert desk.leftovers() == []
    desk.decide(asked, "deny")


def test_folders_that_are_closed_or_very_deep_are_removed(desk):
    asked = desk.ask_for("mkdir closed; chmod 0 closed; for n in $(seq 1500); do mkdir -p d && cd d; done; false")
    found = desk.rehearse(asked)
    assert found["status"] in ("done", "failed"), found
    assert desk.leftovers() == []
    desk.decide(asked, "deny")


def test_an_edited_command_drops_the_rehearsal_of_the_other(desk):
    asked = desk.ask_for("echo first > edited")
    desk.rehearse(asked)
    desk.decide(asked, "edit", arguments={"command": "echo second > edited"})
    action = desk.over(asked)
    assert (action["rehearsal"], desk.file("edited")) == (None, b"second\n")


def test_a_plain_approval_runs_it(desk):
    asked = desk.ask_for("echo $$ > ran")
    desk.rehearse(asked)
    desk.decide(asked)
    action = desk.over(asked)
    assert (action["status"], action["rehearsal"], "applied" in action["result"]) == ("succeeded", None, False)


def test_secrets_and_the_network_are_refused_and_named(desk):
    desk.put(".env", b"KEY=canary\n")
    code = (
        "import socket, subprocess, urllib.request\n"
        "print(open('.env').read())\n"
        "try: urllib.request.urlopen('http://example.org/')\n"
        "except OSError as error: print(error)\n"
        "try: urllib.request.urlopen('http://handrail.internal/api/v1/actions')\n"
        "except OSError as error: print(error)\n"
        "try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "except OSError: pass\n"
        "open('/home/agent/.bashrc', 'a')\n"
    )
    desk.put("probe.py", code.encode())
    asked = desk.ask_for("python3 probe.py")
    found = desk.rehearse(asked)
    assert (found["status"], found["exit_status"]) == ("done", 1)
    assert "canary" not in found["output"]
    for entry in (
        {"kind": "connect", "what": "example.org:80"},
        {"kind": "socket", "what": "IPv4 UDP"},
        {"kind": "write", "what": "/home/agent/.bashrc"},
    ):
        assert entry in found["tried"]
    assert "503" in found["output"]  # Handrail itself is not reached either
    network = desk.ok("GET", f"{desk.path}/network")
    assert "example.org" not in str(network["blocked"])
    assert found["not_shown"]


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("rm ~/tried; touch made", "/home/agent/tried"),
        ("mv ~/tried made", "/home/agent/tried"),
        ("sed -i s/a/b/ ~/tried; touch made", "/home/agent/tried"),
        ("touch made; rm -rf .github/workflows", "/workspace/.github/workflows"),
        ("touch made; echo on > .github/workflows/ci.yml", "/workspace/.github/workflows/ci.yml"),
        ("touch made; rm -f .env.local", "/workspace/.env.local"),
    ],
)
def test_a_result_without_what_only_an_approval_opens_is_not_applied(desk, command, path):
    desk.run("echo a > ~/tried; mkdir -p .github/workflows; echo a > .github/workflows/ci.yml; echo a > .env.local")
    before = desk.content()
    asked = desk.ask_for(command)
    found = desk.rehearse(asked)
    assert found["not_applied_because"].startswith(f"The command changes {path}, which a try leaves as it is."), found
    page = Visitor.named(desk.product, "ruth").get(f"/actions/{asked['id']}/")
    assert ("Approve: apply this result" in page, path in page) == (False, True)
    assert desk.decide(asked, expect=409, apply="rehearsal")["code"] == "no_rehearsal"
    assert desk.content() == before
    desk.decide(asked, "deny")
    desk.run("grep -q a ~/tried && rm -rf .github .env.local")


def test_the_processes_of_a_rehearsal_end_with_it(desk):
    lead = desk.product.person_token("lena", "lead")
    server = desk.ok("POST", f"{desk.path}/commands", {"command": "exec -a canary sleep 60"}, token=lead, expect=201)
    asked = desk.ask_for("cat /proc/[0-9]*/cmdline | tr '\\0' ' '; (sleep 200 &); env; ls -A ~")
    found = desk.rehearse(asked)
    assert (found["status"], "canary" in found["output"]) == ("done", False)
    assert "HANDRAIL_TOKEN" not in found["output"]
    assert desk.leftovers() == []
    desk.ok("POST", f"/api/v1/commands/{server['id']}/cancel", token=lead, expect=202)


def test_the_agent_that_asked_may_try_it_and_others_may_not(desk):
    asked = desk.ask_for("echo mine > mine")
    stranger = desk.product.agent_token("another-agent")
    answer = desk.product.call("POST", f"{ACTIONS}/{asked['id']}/rehearse", stranger)
    assert answer.status in (403, 404)
    viewer = desk.product.person_token("vera", "viewer")
    desk.ok("POST", f"{ACTIONS}/{asked['id']}/rehearse", token=viewer, expect=403)
    assert desk.rehearse(asked, token=desk.agent)["status"] == "done"
    desk.decide(asked, "deny")
    assert desk.ok("POST", f"{ACTIONS}/{asked['id']}/rehearse", expect=409)["code"] == "already_decided"


def test_only_commands_that_handrail_runs_are_tried(desk):
    asked = desk.ask("Write", {"file_path": "/workspace/.github/workflows/ci.yml", "content": "on: push"})
    refused = desk.ok("POST", f"{ACTIONS}/{asked['id']}/rehearse", expect=409)
    assert refused["code"] == "cannot_rehearse"
    desk.decide(asked, expect=409, apply="rehearsal")
    desk.decide(asked, "deny", expect=422, apply="rehearsal")
    desk.decide(asked, "deny")


def test_the_card_offers_it_shows_it_and_applies_it(desk):
    desk.put("page.txt", b"before\n")
    asked = desk.ask_for("echo after > page.txt; echo said so")
    visitor = Visitor.named(desk.product, "ruth")
    card = visitor.get(f"/actions/{asked['id']}/")
    assert "Try it first" in card
    assert "answers of the network" in card
    visitor.post(f"/actions/{asked['id']}/rehearse/", {})
    for _ in range(120):
        found = desk.ok("GET", f"{ACTIONS}/{asked['id']}")["rehearsal"]
        if found["status"] != "running":
            break
        time.sleep(0.25)
    card = visitor.get(f"/actions/{asked['id']}/")
    for text in ("Approve: apply this result", "said so", "page.txt", "after", "1 path changed"):
        assert text in card
    assert "page.txt" in visitor.get(f"/actions/{asked['id']}/rehearsal/")
    form = {"digest": asked["digest"], "apply": "rehearsal", "rehearsal": found["id"]}
    visitor.post(f"/actions/{asked['id']}/approve/", form)
    assert desk.over(asked)["status"] == "succeeded"
    assert desk.file("page.txt") == b"after\n"
    assert "Its result was applied instead of a run." in " ".join(visitor.get(f"/actions/{asked['id']}/").split())


def test_a_rehearsal_is_not_applied_after_a_newer_one(desk):
    asked = desk.ask_for("echo $RANDOM$RANDOM > dice")
    first = desk.rehearse(asked)
    second = desk.rehearse(asked)
    assert first["id"] != second["id"]
    refused = desk.decide(asked, expect=409, apply="rehearsal", rehearsal=first["id"])
    assert refused["code"] == "rehearsal_changed"
    desk.decide(asked, "deny")


def test_the_second_approval_applies_the_same_rehearsal(desk):
    asked = desk.ask("Bash", {"command": "false && git push --force origin main; echo both > both"})
    assert (asked["status"], asked["quorum"]) == ("pending", 2)
    found = desk.rehearse(asked)
    desk.decide(asked, apply="rehearsal", rehearsal=found["id"])
    second = desk.product.person_token("sara", "reviewer")
    answer = {"verdict": "approve", "digest": asked["digest"]}
    address = f"{ACTIONS}/{asked['id']}/decision"
    assert desk.ok("POST", address, answer, token=second, expect=409)["code"] == "other_approval"
    desk.ok("POST", address, answer | {"apply": "rehearsal"}, token=second)
    action = desk.over(asked)
    assert (action["status"], action["result"]["applied"], desk.file("both")) == ("succeeded", "rehearsal", b"both\n")


def test_garbage_collection_keeps_what_can_be_applied(desk):
    asked = desk.ask_for("head -c 100000 /dev/urandom > big")
    found = desk.rehearse(asked)
    admin = desk.product.person_token("ada", "admin")
    for hold in desk.product.home.glob("stores/*/holds/*"):
        hold.unlink()
    desk.ok("POST", "/api/v1/storage/collect", token=admin, expect=202)
    for _ in range(120):
        if desk.ok("GET", "/api/v1/storage", token=admin)["work"]["collect"]["ended_at"]:
            break
        time.sleep(0.25)
    desk.decide(asked, apply="rehearsal", rehearsal=found["id"])
    assert desk.over(asked)["status"] == "succeeded"
    assert len(desk.file("big")) == 100000


def test_a_policy_has_commands_of_a_tier_tried_by_themselves(desk):
    visitor = Visitor.named(desk.product, "lena", "lead")
    page = visitor.get("/policy/edit/")
    text = html.unescape(re.search(r"<textarea[^>]*>(.*?)</textarea>", page, re.DOTALL).group(1)).strip()
    base = re.search(r'name="base" value="(\d+)"', page).group(1)
    visitor.post("/policy/edit/", {"text": f'rehearse = "high"\n{text}', "base": base})
    assert "Commands of tier high" in visitor.get("/policy/")
    asked = desk.ask_for("echo by itself > itself")
    for _ in range(120):
        found = desk.ok("GET", f"{ACTIONS}/{asked['id']}")["rehearsal"]
        if found["status"] != "running":
            break
        time.sleep(0.25)
    assert (found["status"], [change["path"] for change in found["changes"]]) == ("done", ["itself"])
    desk.decide(asked, "deny")

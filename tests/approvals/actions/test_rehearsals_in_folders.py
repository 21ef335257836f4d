"""Try it first in a connected folder that is held: the agent's waiting call is answered with what was recorded."""

import hashlib
import os
import shlex
import shutil
import threading
import time

import pytest

from tests.support.desk import Desk
from tests.support.held_calls import give
from tests.support.held_folder import HeldFolder

ASKS = "false && git push origin main; "  # the policy asks, and it never runs


class Folder(HeldFolder):
    """Calls that wait for a person, in a thread as the agent makes them."""

    def __init__(self, home, user, **environment):
        super().__init__(home, user, **environment)
        self.desk = Desk(self.product, self.product.person_token("rob", "reviewer"))

    def waiting(self, command: str):
        """Start a call; return (thread, its end as a list, its card)."""
        ended = []
        thread = threading.Thread(target=lambda: ended.append(self.calls.ask(command)))
        thread.start()
        until = time.monotonic() + 30
        while time.monotonic() < until:
            for found in self.desk.get("/actions?status=pending").json["actions"]:
                card = self.desk.get(f"/actions/{found['id']}").json
                if card["arguments"].get("command") == command:
                    return thread, ended, card
            time.sleep(0.1)
        raise AssertionError(ended)

    def rehearse(self, card) -> dict:
        self.desk.call("POST", f"/actions/{card['id']}/rehearse", expect=202)
        until = time.monotonic() + 240
        while time.monotonic() < until:
            found = self.desk.get(f"/actions/{card['id']}").json["rehearsal"]
            if found["status"] != "running":
                return found
            time.sleep(0.2)
        raise AssertionError(found)

    def decide(self, card, verdict="approve", expect=200, **more):
        body = {"verdict": verdict, "digest": card["digest"], **more}
        return self.desk.call("POST", f"/actions/{card['id']}/decision", body, expect=expect)

    def put(self, name: str, text: str):
        (self.folder / name).write_text(text)
        give(self.folder / name, self.calls.as_user.get("user"))

    def files(self) -> dict:
        """All but the manifest, which is Handrail's and is written after each snapshot."""
        found = {str(path.relative_to(self.folder)): path for path in self.folder.rglob("*") if path.is_file()}
        return {name: path.read_bytes() for name, path in found.items() if not name.startswith(".handrail/")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, ordinary_user):
    made = Folder(tmp_path_factory.mktemp("desk") / "home", ordinary_user if os.geteuid() == 0 else None)
    yield made
    made.close()


def test_the_waiting_call_prints_what_was_recorded_and_does_not_run_again(folder):
    folder.runs("mkdir -p src build; for n in $(seq 30); do echo $n > src/$n.c; echo old > build/$n.o; done")
    made = "rm -rf build; mkdir build; for n in $(seq 30); do cp src/$n.c build/$n.o; done; pwd; echo it\\'s made"
    thread, ended, card = folder.waiting(f"{ASKS}{made}; date +%s%N | tee build/stamp; exit 3")
    before = folder.files()
    found = folder.rehearse(card)
    assert (found["status"], found["exit_status"], found["not_applied_because"]) == ("done", 3, ""), found
    where, made, stamp = found["output"].splitlines()
    assert (where, made) == (str(folder.folder), "it's made")
    assert folder.files() == before
    folder.decide(card, apply="rehearsal", rehearsal=found["id"])
    thread.join(60)
    [answer] = ended
    assert answer["permissionDecision"] == "allow", answer
    done = folder.calls.run(answer["updatedInput"]["command"])
    assert (done.returncode, done.stdout.decode()) == (3, found["output"])
    after = folder.files()
    assert after["build/stamp"].decode() == f"{stamp}\n"
    assert {path for path in after if after[path] != before.get(path)} == {
        "build/stamp",
        *(f"build/{n}.o" for n in range(1, 31)),
    }
    action = folder.desk.get(f"/actions/{card['id']}").json
    assert (action["status"], action["result"]["applied"]) == ("failed", "rehearsal")  # it exited with 3


def test_an_output_that_quoting_makes_much_longer_is_printed_as_far_as_a_command_can_hold_it(folder):
    thread, ended, card = folder.waiting(f"{ASKS}printf %040000d 0 | tr 0 \\'; : {'x' * 20_000}; echo; echo last")
    found = folder.rehearse(card)
    folder.decide(card, apply="rehearsal", rehearsal=found["id"])
    thread.join(60)
    done = folder.calls.run("eval " + shlex.quote(ended[0]["updatedInput"]["command"]))  # as Claude Code runs it
    said = done.stdout.decode()
    assert (done.returncode, said[-6:], found["output"].endswith(said)) == (0, "\nlast\n", True), said[:200]
    assert len(said) > 5_000


# Make writes the files itself, without a process for each. No two runs make the same.
MAKEFILE = """
STAMP := $(shell date +%s%N)
all: $(patsubst src/%.c,build/%.o,$(wildcard src/*.c))
build/%.o: src/%.c
\t$(file >$@,$(file <$<) $(STAMP))
"""


def test_ten_thousand_rebuilt_files_become_what_was_shown(folder):
    many = folder.folder / "many"
    for name in ("src", "build"):
        (many / name).mkdir(parents=True)
    for number in range(10_000):
        (many / f"src/{number}.c").write_text(f"{number}\n")
        (many / f"build/{number}.o").write_text("old\n")
    (many / "Makefile").write_text(MAKEFILE)
    give(many, folder.calls.as_user.get("user"))
    made = "cd many && rm -rf build && mkdir build && make -s && cat build/*.o | sha256sum"
    thread, ended, card = folder.waiting(ASKS + made)
    found = folder.rehearse(card)
    assert (found["status"], found["exit_status"], found["change_count"]) == ("done", 0, 10_000), found
    assert {path.read_text() for path in many.glob("build/*")} == {"old\n"}
    folder.decide(card, apply="rehearsal", rehearsal=found["id"])
    thread.join(200)
    assert folder.calls.run(ended[0]["updatedInput"]["command"]).stdout.decode() == found["output"]
    now = b"".join(path.read_bytes() for path in sorted(many.glob("build/*.o"), key=lambda path: path.name))
    assert hashlib.sha256(now).hexdigest() == found["output"].split()[0]
    shutil.rmtree(many)


def test_a_copy_shows_no_secret_and_reaches_nothing(folder):
    folder.put(".env", "KEY=canary\n")
    (folder.root / "home/.cache/pip").mkdir(parents=True)
    give(folder.root / "home/.cache", folder.calls.as_user.get("user"))
    command = "cat .env; echo x > ~/.cache/pip/x; curl -sS --max-time 5 http://elsewhere.test/; echo kept > kept; id -u"
    thread, ended, card = folder.waiting(ASKS + command)
    found = folder.rehearse(card)
    assert "canary" not in found["output"]
    assert {"kind": "connect", "what": "elsewhere.test:80"} in found["tried"], found
    assert [change["path"] for change in found["changes"]] == ["kept"]
    folder.decide(card, "deny")
    thread.join(30)
    assert ended[0]["permissionDecision"] == "deny"
    assert not (folder.folder / "kept").exists()
    assert not (folder.root / "home/.cache/pip/x").exists()


def test_what_changed_since_is_refused_and_a_plain_approval_runs_it(folder):
    folder.put("notes", "one\n")
    thread, ended, card = folder.waiting(ASKS + "echo two >> notes")
    found = folder.rehearse(card)
    folder.put("notes", "meanwhile\n")
    assert folder.decide(card, expect=409, apply="rehearsal").json["code"] == "rehearsal_outdated"
    found = folder.rehearse(card)
    assert found["status"] == "done"
    folder.decide(card)
    thread.join(60)
    assert (folder.folder / "notes").read_text() == "meanwhile\n"
    assert folder.calls.run(ended[0]["updatedInput"]["command"]).returncode == 0, ended
    assert (folder.folder / "notes").read_text() == "meanwhile\ntwo\n"


def test_the_same_call_again_gets_the_recorded_answer_once(folder):
    (folder.folder / "anothers").write_text("x")
    command = ASKS + "date +%N | tee again"
    thread, ended, card = folder.waiting(command)
    found = folder.rehearse(card)
    folder.decide(card, apply="rehearsal", rehearsal=found["id"])
    thread.join(60)
    assert ended[0]["permissionDecision"] == "allow", ended
    thread, later, second = folder.waiting(command)
    assert second["id"] != card["id"]
    folder.decide(second, "deny")
    thread.join(30)
    assert later[0]["permissionDecision"] == "deny"

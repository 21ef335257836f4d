"""An approval binds the bytes of what a command runs: from outside, in real workspaces."""

import json
import shlex
import uuid
from pathlib import Path

import pytest

from tests.approvals.evidence.conftest import Person, text_of

from ..broker.test_broker import Brokered
from ..conftest import ACTIONS
from ..connect.test_connect_folder import connected, folder, hook_line  # noqa: F401 (fixtures)

GIT = "git -c user.name=T -c user.email=t@example.org"
COMMITTED = f"git remote add origin https://example.org/x.git; echo 1 > a; git add a; {GIT} commit -qm one"
CHANGED = "Needs approval again: {} changed since it was approved."


@pytest.fixture(scope="module")
def desk(product):
    return Brokered(product)


@pytest.fixture
def run(desk):
    """`run("echo 1 > a")`: a command of the agent's own in its workspace, which nobody is asked about."""

    def command(text):
        made = desk.ok("POST", f"{desk.path}/commands", {"command": text}, expect=201)
        for _ in range(12):
            made = desk.ok("GET", f"/api/v1/commands/{made['id']}?wait=5")
            if made["state"] == "settled":
                break
        assert made["exit_status"] == 0, made

    return command


@pytest.fixture
def page(product):
    """`page("/actions/…/")`: what a reviewer reads there."""
    person = Person(product)
    return lambda path: text_of(person.get(path))


def consume(desk, action, *, expect=200):
    body = {"digest": action["digest"]}
    return desk.ok("POST", f"{ACTIONS}/{action['id']}/consume", body, expect=expect)


def look(desk, action):
    return desk.ok("GET", f"{ACTIONS}/{action['id']}")


def paths(action):
    return [file["path"] for file in action["files"]]


def test_a_script_that_changed_after_the_yes_is_asked_about_again(desk):
    desk.put("deploy.sh", b"echo one >> ran-one\n")
    asked = desk.ask("Bash", {"command": "bash deploy.sh"})
    assert (asked["status"], paths(asked)) == ("pending", ["deploy.sh"])
    desk.put("deploy.sh", b"echo two >> ran-two\n")
    desk.decide(asked)
    for _ in range(20):
        again = desk.ok("GET", f"{ACTIONS}/{asked['id']}?wait=1")
        if again["revision"] == 2:
            break
    assert (again["status"], again["revision"], again["votes"]) == ("pending", 2, 0)
    assert again["reasons"][0] == CHANGED.format("deploy.sh")
    assert again["digest"] != asked["digest"]
    assert again["decision"] is None
    assert (desk.file("ran-one"), desk.file("ran-two")) == (None, None)
    old = {"verdict": "approve", "digest": asked["digest"]}
    refused = desk.ok("POST", f"{ACTIONS}/{asked['id']}/decision", old, token=desk.reviewer, expect=409)
    assert refused["code"] == "digest_mismatch"
    desk.decide(again)
    over = desk.over(again)
    assert (over["status"], over["decision"]["edited"]) == ("succeeded", False)
    assert (desk.file("ran-one"), desk.file("ran-two")) == (None, b"two\n")


def test_a_script_that_stayed_the_same_runs_once(desk):
    desk.put("same.sh", b"echo ran >> same-ran\n")
    asked = desk.ask("Bash", {"command": "bash same.sh"})
    desk.decide(asked)
    assert (desk.over(asked)["status"], desk.file("same-ran")) == ("succeeded", b"ran\n")


def test_a_call_of_the_agent_is_refused_when_its_script_changed(desk):
    desk.put("own.sh", b"echo one\n")
    asked = desk.ask("Bash", {"command": "bash own.sh"}, mode="gate")
    desk.decide(asked)
    desk.put("own.sh", b"echo two\n")
    refused = consume(desk, asked, expect=409)
    assert (refused["code"], refused["action_status"]) == ("changed", "pending")
    again = look(desk, asked)
    assert (again["status"], again["revision"], again["snapshot_before"]) == ("pending", 2, None)
    desk.decide(again)
    assert consume(desk, again)["status"] == "running"


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("./x.sh", "x.sh"),
        ("python3 -W ignore x.py --env prod", "x.py"),
        ("source x.sh", "x.sh"),
        (". x.sh", "x.sh"),
        ("timeout 60 sh -c 'cd lib && python3 tool.py'", "lib/tool.py"),
        ("make publish", "Makefile"),
        ("make -C lib publish", "lib/Makefile"),
        ("npm run publish", "package.json"),
        ("cd lib && node tool.js", "lib/tool.js"),
        ("node -r ./hook.js lib/tool.js", "hook.js"),
        ("kubectl apply -f service.yaml", "service.yaml"),
        ("psql -fschema.sql", "schema.sql"),
        ("sudo ./link.sh", "link.sh"),
    ],
)
def test_every_way_to_name_a_script(desk, run, command, file):
    place = file.rpartition("/")[0] or "."
    run(
        "rm -rf x.* lib *file *.json *.js *.yaml *.sql link.sh real.sh; mkdir lib; touch real.sh; ln -s real.sh link.sh"
    )
    run(f"mkdir -p {place}; echo one > {file}")
    asked = desk.ask("Bash", {"command": command}, mode="gate")
    assert (asked["status"], file in paths(asked)) == ("pending", True), asked
    desk.decide(asked)
    run(f"echo two > {file}")
    assert consume(desk, asked, expect=409)["code"] == "changed"
    assert look(desk, asked)["reasons"][0] == CHANGED.format(file)


@pytest.mark.parametrize(
    ("command", "swap", "said"),
    [
        ("bash later.sh", "echo 1 > later.sh", "later.sh"),
        ("make deploy", "echo 1 > GNUmakefile", "GNUmakefile"),
        ("sudo ./turned.sh", "ln -sf other.sh turned.sh", "turned.sh"),
        (
            "terraform apply",
            "mkdir -p ~/.local/bin; echo 1 > ~/.local/bin/terraform",
            "/home/agent/.local/bin/terraform",
        ),
        ("bash ~/tool.sh", "echo 1 > ~/tool.sh", "/home/agent/tool.sh"),
    ],
)
def test_a_file_that_comes_in_between_is_a_change(desk, run, command, swap, said):
    run("echo a > first.sh; echo b > other.sh; ln -sf first.sh turned.sh; echo 'deploy:' > Makefile")
    asked = desk.ask("Bash", {"command": command}, mode="gate")
    desk.decide(asked)
    run(swap)
    assert consume(desk, asked, expect=409)["code"] == "changed"
    assert look(desk, asked)["reasons"][0] == CHANGED.format(said)


def test_files_that_a_script_reads_are_not_bound(desk, run):
    run("echo 'cat data.txt; . ./inner.sh' > outer.sh; echo 1 > data.txt; echo true > inner.sh")
    asked = desk.ask("Bash", {"command": "bash outer.sh"}, mode="gate")
    assert paths(asked) == ["outer.sh"]
    desk.decide(asked)
    run("echo 2 > data.txt; echo false > inner.sh")
    assert consume(desk, asked)["status"] == "running"


def test_a_push_binds_its_commit(desk, run):
    run(f"git init -q -b main repo; cd repo; {COMMITTED}")
    asked = desk.ask("Bash", {"command": "cd repo && git push origin main"}, mode="gate")
    assert [(file["kind"], file["path"]) for file in asked["files"]] == [("commit", "repo/main")]
    desk.decide(asked)
    run(f"cd repo; echo 2 > a; {GIT} commit -qam two")
    assert consume(desk, asked, expect=409)["code"] == "changed"
    assert look(desk, asked)["reasons"][0] == CHANGED.format("the commit for repo/main")


def test_a_commit_and_push_binds_what_the_commit_takes_in(desk, run):
    run(f"git init -q -b main both; cd both; {COMMITTED}")
    run("cd both; echo 2 > a; echo new > b")
    command = "cd both && git add . && git commit -m two && git push origin main"
    asked = desk.ask("Bash", {"command": command}, mode="gate")
    assert [file["kind"] for file in asked["files"]] == ["changes", "commit"]
    desk.decide(asked)
    run("cd both; echo secret > b")
    assert consume(desk, asked, expect=409)["code"] == "changed"


def test_a_grant_covers_the_script_as_it_was(desk, run):
    name = f"granted-{uuid.uuid4().hex[:6]}.sh"
    run(f"echo true > {name}")
    asked = desk.ask("Bash", {"command": f"bash {name}"}, mode="gate")
    body = {"digest": asked["digest"], "covers": "exact"}
    desk.ok("POST", f"{ACTIONS}/{asked['id']}/grant", body, token=desk.reviewer, expect=201)
    assert desk.ask("Bash", {"command": f"bash {name}"}, mode="gate")["status"] == "approved"
    run(f"echo false > {name}")
    assert desk.ask("Bash", {"command": f"bash {name}"}, mode="gate")["status"] == "pending"


def test_an_edit_waits_when_the_script_is_not_the_one_that_was_shown(desk, run):
    run("echo one > edited.sh")
    asked = desk.ask("Bash", {"command": "bash edited.sh prod"}, mode="gate")
    run("echo two > edited.sh")
    edited = desk.decide(asked, "edit", arguments={"command": "bash edited.sh test"})
    assert (edited["status"], edited["revision"]) == ("pending", 2)
    desk.decide(edited)
    assert consume(desk, edited)["status"] == "running"


def test_the_card_shows_the_script_and_what_changed_in_it(desk, run, page):
    desk.put("shown.sh", b"echo first <b>\n")
    desk.put("package.json", b'{"scripts": {"ship": "sh shown.sh", "other": "true"}}')
    asked = desk.ask("Bash", {"command": "bash shown.sh && npm run ship"}, mode="gate")
    text = page(f"/actions/{asked['id']}/")
    assert "echo first <b>" in text
    assert ("ship: sh shown.sh" in text, "other: true" in text) == (True, False)
    assert "Files that they load in turn are not checked." in text
    desk.decide(asked)
    run("echo 'echo second' > shown.sh")
    consume(desk, asked, expect=409)
    text = page(f"/actions/{asked['id']}/")
    assert CHANGED.format("shown.sh") in text
    assert ("echo first <b>" in text, "echo second" in text) == (True, True)


def test_a_secret_is_bound_and_not_shown(desk, run, page):
    run("echo TOKEN=canary-4711 > .env")
    asked = desk.ask("Bash", {"command": "source .env && ./x"}, mode="gate")
    assert ".env" in paths(asked)
    assert "canary-4711" not in page(f"/actions/{asked['id']}/")


def test_without_a_workspace_the_card_says_that_nothing_is_read(desk, page):
    body = {"tool": "Bash", "arguments": {"command": "bash deploy.sh"}}
    asked = desk.ok("POST", ACTIONS, body, expect=201)
    assert asked["files"] == []
    assert "There is no workspace, so Handrail can't read the scripts" in page(f"/actions/{asked['id']}/")


def test_in_a_users_own_folder_files_anywhere_of_theirs_are_bound(product, connected, tmp_path, page):  # noqa: F811
    files = [Path(word) for word in shlex.split(hook_line(connected)) if word.startswith("/") and Path(word).is_file()]
    token = next(json.loads(path.read_text())["token"] for path in files if path.suffix == ".json")
    rows = product.get("/api/v1/workspaces", token).json["workspaces"]
    key = next(row["key"] for row in rows if row["source"].get("path") == str(connected))
    outside = tmp_path / "outside.sh"
    outside.write_text("echo outside\n")
    (connected / "here.sh").write_text("echo here\n")
    body = {"tool": "Bash", "workspace": key, "arguments": {"command": f"bash {outside} && sh here.sh"}}
    asked = product.post(ACTIONS, token, body).json
    assert paths(asked) == [str(outside), "here.sh"]
    text = page(f"/actions/{asked['id']}/")
    assert ("echo outside" in text, "echo here" in text) == (True, True)
    answer = {"verdict": "approve", "digest": asked["digest"]}
    reviewer = product.person_token("ruth", "reviewer")
    assert product.post(f"{ACTIONS}/{asked['id']}/decision", reviewer, answer).json["status"] == "approved"
    outside.write_text("echo other\n")
    refused = product.post(f"{ACTIONS}/{asked['id']}/consume", token, {"digest": asked["digest"]})
    assert (refused.status, refused.json["code"]) == (409, "changed")
    assert product.get(f"{ACTIONS}/{asked['id']}", token).json["reasons"][0] == CHANGED.format(outside)

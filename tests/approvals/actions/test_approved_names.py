"""What a person approved is what runs: each verb, on files of the workspace, at protected paths, in the home."""

import re

import pytest

from tests.approvals.broker.test_broker import Brokered
from tests.support.desk import Desk
from tests.support.product import Product
from tests.support.visitor import Visitor
from tests.workspaces.drivers.runs import IMAGES

from ..conftest import ACTIONS

MAKE = (
    "git init -q . && mkdir -p dist/deep .github/workflows ~/old/deep && echo a > one.txt && echo a > plain.txt && "
    "echo a > calc.py && echo x > dist/x && echo x > ~/old/x && echo a > ~/single && echo keep > ~/beside && "
    "echo on: > .github/workflows/ci.yml && echo keep > .github/workflows/other.yml && touch dist/.env && "
    "echo a > .npmrc"
)
ASKS = " && echo x > ~/asked"
# command: what must be so afterwards
CALLS = {
    f"rm -rf dist{ASKS}": "! test -e dist",
    f"rm one.txt{ASKS}": "! test -e one.txt",
    "rm -rf ~/old": "! test -e ~/old",
    "rm ~/single": "! test -e ~/single",
    "mv ~/single ~/single2": "! test -e ~/single && grep -q a ~/single2",
    f"sed -i s/a/b/ calc.py{ASKS}": "grep -q b calc.py",
    "sed -i s/a/b/ ~/single": "grep -q b ~/single",
    f"mv plain.txt p2.txt{ASKS}": "! test -e plain.txt && grep -q a p2.txt",
    "git config user.name robo": "git config user.name | grep -q robo",
    "sed -i s/on/off/ .github/workflows/ci.yml": "grep -q off .github/workflows/ci.yml",
    "rm -f .github/workflows/ci.yml; ls .github": "! test -e .github/workflows/ci.yml",
    "mv .github/workflows/ci.yml .github/workflows/b.yml": "grep -q on .github/workflows/b.yml",
    "git mv -f .github/workflows/ci.yml moved.yml || mv .github/workflows/ci.yml moved.yml": "grep -q on moved.yml",
    "rm -rf .git/hooks": "! test -e .git/hooks",
    "rm -rf .git": "! test -e .git",
    "cd dist && rm -rf ../.github/workflows/c*": "! test -e .github/workflows/ci.yml",
    "rm -rf ~/ol*": "! test -e ~/old",
    "echo b > ~/new; echo c >> ~/single; truncate -s 0 ~/single; chmod 600 ~/new": "! test -s ~/single && cat ~/new",
    "ln ~/single ~/linked && ln -s single ~/soft": 'test "$(stat -c %h ~/single)" = 2 && test -L ~/soft',
    "rmdir ~/old/deep": "test -e ~/old && ! test -e ~/old/deep",
    "mkdir -p ~/a/b && cp one.txt ~/a/b/c": "grep -q a ~/a/b/c",
}
# The same for acts whose files only the disk tells.
FOUND = {
    f"find . -name one.txt -delete{ASKS}": "! test -e one.txt && test -e plain.txt",
    "find . -name '*.yml' -delete": "! test -e .github/workflows/ci.yml && test -e plain.txt",
    "find . -type f -not -path './.handrail/*' -not -path './.git/*' -delete": "! test -e plain.txt && test -d dist",
    f"find . -name 'ci.yml' -exec sed -i s/on/off/ {{}} +{ASKS}": "grep -q off .github/workflows/ci.yml",
    f"find . -name 'ci.yml' -exec rm {{}} \\;{ASKS}": "! test -e .github/workflows/ci.yml",
    "find . -name 'c*.yml' | xargs rm -f": "! test -e .github/workflows/ci.yml",
    "find ~/old -name x -delete": "! test -e ~/old/x && test -d ~/old/deep",
    f"find dist -delete{ASKS}": "! test -e dist",
    "git clean -fdx -e /.handrail": "! test -e one.txt && ! test -e dist && ! test -e .github",
    f"git clean -fd{ASKS}": "! test -e one.txt && ! test -e dist && ! test -e .github",
    f"git add one.txt && git commit -qm a && git stash -u{ASKS}": "! test -e .github && test -e one.txt",
    "rm -rf ./*": "! test -e one.txt && test -e .github/workflows/ci.yml",
    f"mkdir sub; mv *.txt sub/{ASKS}": "test -e sub/one.txt && ! test -e one.txt",
    f"git add -f .npmrc && git commit -qm a && echo b > .npmrc && git checkout .{ASKS}": "grep -q a .npmrc",
    "git add -f .npmrc && git commit -qm a && git rm -q .npmrc && git commit -qm b && git reset --hard HEAD~1"
    + ASKS: "grep -q a .npmrc",
    "ln -sfn /etc/hostname ~/lnk": 'test "$(readlink ~/lnk)" = /etc/hostname',
    "ln -s ../src/a.txt .github/workflows/l.yml": 'test "$(readlink .github/workflows/l.yml)" = ../src/a.txt',
    "perl -pi -e s/on/off/ .github/workflows/ci.yml": "grep -q off .github/workflows/ci.yml",
}
# Verbs of git that bring the files of branch `other`, which are tracked and protected.
BRINGING = (
    "git checkout -q other",
    "git switch -q other",
    "git merge -q other",
    "git pull -q . other",
    "git rebase -q other",
    "git cherry-pick other",
    "git stash pop",
    "git apply /workspace/b.patch",
    "git reset -q --hard other",
    "git restore -s other .",
    "git checkout -q other -- .",
    "patch -p1 < b.patch",
)
BRANCHES = (
    "git add -f {path} && git commit -qm a && git checkout -qb other && echo b > {path} && git commit -qam b && "
    "git format-patch -q -1 --stdout > b.patch && git checkout -q - && echo b > {path} && git stash -q"
)
# Acts that would take away what Handrail keeps: {command: what must still be there}.
KEPT = ("git clean -fdx", "git stash -a", "rm -rf * .[!.]*", "find . -delete", "find . -type f -exec rm {} +")
SAME = (
    "grep -q keep ~/beside && ls ~/beside && (test ! -e .github/workflows || grep -q keep .github/workflows/other.yml)"
)


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    product = Product(tmp_path_factory.mktemp("names") / "home", HANDRAIL_HELD="1")
    product.start()
    yield product
    product.clean_up()


@pytest.fixture(scope="module")
def desk(product):
    desk = Brokered(product)
    desk.has_git = True
    return desk


@pytest.fixture(scope="module")
def contained(product, require):
    """The same in a container, where nothing holds an approved call."""
    lead = Desk(product, product.person_token("lena", "lead"))
    docker = next(one for one in lead.get("/drivers").json["drivers"] if one["name"] == "docker")
    if not docker["available"]:
        require("docker", docker["reason"])
    lead.post("/environments", {"name": "docker", "driver": "docker", "egress": {}, "image": IMAGES["docker"]})
    desk = Brokered(product, environment="docker")
    desk.has_git = False  # the image has none
    return desk


def of_person(desk, command):
    token = desk.product.person_token("lena", "lead")
    made = desk.ok("POST", f"{desk.path}/commands", {"command": command}, token=token, expect=201)
    ended = desk.ok("GET", f"/api/v1/commands/{made['id']}?wait=20", token=token)
    return ended["exit_status"]


def prepared(desk):
    assert of_person(desk, "rm -rf /workspace/* /workspace/.git* ~/*") == 0
    made = MAKE if desk.has_git else MAKE.replace("git init -q .", "mkdir -p .git/hooks")
    assert of_person(desk, made) == 0


def test_a_call_that_fails_half_way_says_what_it_changed(desk):
    prepared(desk)
    asked = desk.ask("Bash", {"command": "rm -rf dist; rm ~/single; exit 3"})
    desk.decide(asked)
    action = desk.over(asked)
    assert (action["status"], action["result"]["exit_status"]) == ("failed", 3)
    assert "dist/x" in action["result"]["changed"]
    assert action["result"]["changed_count"] == len(action["result"]["changed"])
    visitor = Visitor.named(desk.product, "lena", "lead")
    page = visitor.get(f"/actions/{asked['id']}/")
    assert "Changed before it ended" in page
    assert f"/actions/{asked['id']}/rollback/" in page


def test_a_refusal_is_not_hidden_by_an_exit_status_of_zero(desk):
    prepared(desk)
    desk.put("other.py", b"open('/home/agent/beside', 'a')\n")
    asked = desk.ask("Bash", {"command": "rm ~/single; python3 other.py || true"})
    desk.decide(asked)
    action = desk.over(asked)
    assert action["result"]["exit_status"] == 0
    assert {"kind": "write", "what": "/home/agent/beside"} in action["blocked"], action
    assert "Refused meanwhile: write /home/agent/beside" in action["result"]["note"]


def test_an_approved_call_that_cannot_be_done_in_full_does_not_begin(desk):
    prepared(desk)
    asked = desk.ask("Bash", {"command": "touch began; rm -rf /workspace"})
    desk.decide(asked)
    action = desk.over(asked)
    assert action["status"] in ("cancelled", "failed"), action
    assert "/workspace itself cannot be removed or moved here" in action["result"]["note"], action
    assert of_person(desk, "test -e one.txt && ! test -e began") == 0


def test_an_edited_call_opens_what_it_names_then(desk):
    prepared(desk)
    asked = desk.ask("Bash", {"command": "rm ~/beside"})
    desk.decide(asked, "edit", arguments={"command": "rm ~/single"})
    assert desk.over(asked)["status"] == "succeeded"
    assert of_person(desk, f"! test -e ~/single && {SAME}") == 0


def test_a_grant_opens_what_its_calls_name(desk):
    command = {"command": "rm -rf ~/old && mv ~/single ~/moved && sed -i s/on/off/ .github/workflows/ci.yml"}
    prepared(desk)
    first = desk.ask("Bash", command)
    wish = {"digest": first["digest"], "covers": "exact", "uses": 3}
    desk.ok("POST", f"{ACTIONS}/{first['id']}/grant", wish, token=desk.reviewer, expect=201)
    for asked in (first, None):
        if asked is None:
            prepared(desk)
            asked = desk.ask("Bash", command)
        action = desk.over(asked)
        assert (action["status"], action["blocked"]) == ("succeeded", []), action
        after = "! test -e ~/old && ! test -e ~/single && grep -q a ~/moved && grep -q off .github/workflows/ci.yml"
        assert of_person(desk, f"{after} && {SAME}") == 0
    assert action["decision"]["by"] == "a grant of ruth"


def test_the_card_says_what_is_opened(desk):
    asked = desk.ask("Bash", {"command": "rm ~/single; echo x > ~/new; curl -s http://example.org/"})
    page = Visitor.named(desk.product, "ruth").get(f"/actions/{asked['id']}/")
    for words in ("Removes or moves away", "/home/agent/new (and new names in /home/agent)", "example.org:80"):
        assert words in page
    desk.decide(asked, "deny")


@pytest.mark.slow
def test_each_approved_call_does_what_its_card_said_in_a_container(contained):
    for calls in (CALLS, FOUND):
        walks(contained, {command: after for command, after in calls.items() if "git " not in command})


@pytest.mark.slow
def test_each_approved_call_does_what_its_card_said(desk):
    walks(desk, CALLS)


def walks(desk, calls):
    for command, after in calls.items():
        prepared(desk)
        asked = desk.ask("Bash", {"command": command})
        assert asked["status"] == "pending", command
        desk.decide(asked)
        action = desk.over(asked)
        assert action["status"] == "succeeded", (command, action["result"], action["blocked"])
        kept = "grep -q keep ~/beside" if command in FOUND else SAME
        assert of_person(desk, f"{after} && {kept}") == 0, command


@pytest.mark.slow
def test_an_approved_call_changes_the_files_that_it_finds(desk):
    walks(desk, FOUND)


def test_a_call_that_would_remove_the_manifest_is_refused(desk):
    prepared(desk)
    for command in KEPT:
        asked = desk.ask("Bash", {"command": f"touch began; {command}"})
        assert asked["status"] == "denied", (command, asked)
        assert "ask again without .handrail" in asked["reasons"][0], asked
    assert of_person(desk, "! test -e began && test -e one.txt && test -s .handrail/manifest.json") == 0


def test_a_call_that_was_refused_a_protected_file_becomes_a_card_that_opens_it(desk):
    prepared(desk)
    made = "git add -f .npmrc && git commit -qm a && echo b > .npmrc && git commit -qam b && echo c > .npmrc"
    assert of_person(desk, made) == 0
    command = {"command": "git reset --hard HEAD~1"}
    first = desk.over(desk.ask("Bash", command))
    assert (first["status"], first["tier"]) == ("failed", "medium"), first
    assert {"kind": "write", "what": ".npmrc"} in first["blocked"]
    assert "Ask for the same call again, and a person can let it change /workspace/.npmrc." in first["result"]["note"]
    asked = desk.ask("Bash", command)
    assert asked["status"] == "pending", asked
    assert asked["title"] == "Run git reset --hard HEAD~1, changing .npmrc"
    assert "it was refused to change .npmrc before" in asked["reasons"][0]
    page = Visitor.named(desk.product, "ruth").get(f"/actions/{asked['id']}/")
    assert "/workspace/.npmrc" in page
    desk.decide(asked)
    action = desk.over(asked)
    assert (action["status"], action["blocked"]) == ("succeeded", []), action
    assert of_person(desk, "grep -q a .npmrc && git diff --quiet HEAD") == 0
    assert desk.ask("Bash", {"command": "git reset --hard HEAD"})["tier"] == "medium"


def test_a_refused_protected_file_is_named_although_the_call_exits_with_0(desk):
    prepared(desk)
    desk.put("edit.py", b"open('.github/workflows/ci.yml', 'w')\n")
    action = desk.over(desk.ask("Bash", {"command": "python3 edit.py || true"}))
    assert action["blocked"] == [{"kind": "write", "what": ".github/workflows/ci.yml"}]
    note = action["result"]["note"]
    assert "Refused meanwhile: write .github/workflows/ci.yml." in note
    assert "Ask for the same call again, and a person can let it change /workspace/.github/workflows/ci.yml." in note


@pytest.mark.slow
def test_each_verb_of_git_can_change_a_tracked_protected_file_once_a_person_allows_it(desk):
    walked = [(verb, ".github/workflows/ci.yml") for verb in BRINGING] + [("git merge -q other", ".npmrc")]
    for verb, path in walked:
        prepared(desk)
        assert of_person(desk, BRANCHES.format(path=path)) == 0
        asked = desk.ask("Bash", {"command": verb})
        if asked["status"] != "pending":
            action = desk.over(asked)
            note = action["result"]["note"]
            assert {"kind": "write", "what": path} in action["blocked"], (verb, action)
            assert f"a person can let it change /workspace/{path}." in note
            asked = desk.ask(
                "Bash", {"command": re.sub("(checkout|switch)", r"\1 -f", verb) if "with -f" in note else verb}
            )
        assert asked["status"] == "pending", (verb, asked)
        desk.decide(asked)
        action = desk.over(asked)
        assert (action["status"], action["blocked"]) == ("succeeded", []), (verb, action)
        assert of_person(desk, f"grep -q b {path}") == 0, verb

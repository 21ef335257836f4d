"""Protected paths that held programs create: moved into quarantine, kept, and put back by a person alone."""

import os
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from tests.approvals.broker.test_broker import Brokered
from tests.support.desk import Desk
from tests.support.held_calls import give
from tests.support.held_folder import HeldFolder
from tests.support.product import Product

MAKE = """
import os
os.makedirs('.husky', exist_ok=True)
open('.husky/pre-commit', 'w').write('#!/bin/sh\\necho hooked\\n')
os.chmod('.husky/pre-commit', 0o755)
open('plain.txt', 'w').write('plain')
"""
HOOK = b"#!/bin/sh\necho hooked\n"


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    product = Product(tmp_path_factory.mktemp("quarantine") / "home", HANDRAIL_HELD="1")
    product.start()
    made = Brokered(product)
    made.reads = Desk(product, made.reviewer)
    yield made
    product.clean_up()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, ordinary_user):
    made = HeldFolder(tmp_path_factory.mktemp("desk") / "home", ordinary_user if os.geteuid() == 0 else None)
    yield made
    made.close()


def card(reader, path: str) -> dict:
    """The card that asks whether to put the path back."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        for found in reader.get("/actions?status=pending").json["actions"]:
            if found["title"].startswith(f"Put {path} back"):
                return reader.get(f"/actions/{found['id']}").json
        time.sleep(0.2)
    raise AssertionError(f"no card for {path}")


def run(desk, program: str) -> dict:
    desk.put("make.py", program.encode())
    return desk.over(desk.ask("Bash", {"command": "python3 make.py"}))


def test_what_a_command_of_a_sandbox_creates_is_moved_and_a_person_puts_it_back(desk):
    action = run(desk, MAKE)
    assert action["status"] == "succeeded"
    assert {"kind": "quarantine", "what": ".husky"} in action["blocked"]
    assert desk.file("plain.txt") == b"plain"
    assert desk.file(".husky/pre-commit") is None
    asked = card(desk.reads, ".husky")
    assert "Put .husky back" in asked["title"]
    assert asked["arguments"]["holds"] == ["pre-commit"]
    assert asked["tier"] == "high"
    desk.decide(asked)
    assert desk.over(asked)["status"] == "succeeded"
    assert desk.file(".husky/pre-commit") == HOOK


def test_a_denied_path_stays_in_quarantine(desk):
    run(desk, "open('.envrc', 'w').write('export A=1')")
    assert desk.file(".envrc") is None
    asked = card(desk.reads, ".envrc")
    assert asked["arguments"]["content"] == "export A=1"
    desk.decide(asked, "deny")
    time.sleep(6)  # the runner sweeps every five seconds
    assert desk.file(".envrc") is None
    waiting = desk.reads.get("/actions?status=pending").json["actions"]
    assert all("Put .envrc" not in found["title"] for found in waiting)


def test_a_quarantined_path_does_not_replace_another_file(desk):
    run(desk, "open('.mcp.json', 'w').write('{}')")
    asked = card(desk.reads, ".mcp.json")
    desk.put(".mcp.json", b'{"mine": 1}')
    desk.decide(asked)
    ended = desk.over(asked)
    assert ended["status"] == "failed"
    assert "There is another .mcp.json now" in ended["result"]["note"]
    assert desk.file(".mcp.json") == b'{"mine": 1}'


def test_a_new_repository_is_left_alone_unless_it_names_a_program(desk):
    action = run(desk, "import subprocess; subprocess.run(['git', 'init', '-q', 'plain'], check=True)")
    assert action["blocked"] == []
    assert desk.file("plain/.git/config").startswith(b"[core]")
    evil = "import subprocess; subprocess.run('git init -q evil && git -C evil config core.fsmonitor ./x', shell=True)"
    action = run(desk, evil)
    assert {"kind": "quarantine", "what": "evil/.git/config"} in action["blocked"]
    assert desk.file("evil/.git/config") is None


GIT = "git -c user.name=a -c user.email=a@b -c protocol.file.allow=always"
MAKE_NESTED = f"""
import subprocess
subprocess.run('''set -e
{GIT} init -q inner && {GIT} -C inner commit -q --allow-empty -m one
{GIT} init -q outer && cd outer && {GIT} commit -q --allow-empty -m one
{GIT} submodule --quiet add "$PWD/../inner" libs/inner && {GIT} commit -qm two
{GIT} worktree add -q side && {GIT} -C side commit -q --allow-empty -m three
{GIT} clone -q --bare . ../kept
''', shell=True, check=True)
"""


def test_submodules_worktrees_and_bare_repositories_of_git_are_left_alone(desk):
    action = run(desk, MAKE_NESTED)
    assert (action["status"], action["blocked"]) == ("succeeded", [])
    assert desk.file("outer/libs/inner/.git") is not None
    assert desk.file("outer/.git/modules/libs/inner/config") is not None
    assert desk.file("outer/side/.git") is not None
    assert desk.file("kept/config") is not None


@pytest.mark.parametrize(
    ("made", "command"),
    [
        ("led/.git/commondir", "echo ../../planted > led/.git/commondir"),
        ("led/.git/worktrees/x/commondir", "mkdir -p led/.git/worktrees/x; echo /tmp > led/.git/worktrees/x/commondir"),
        ("led/sub/.git", "mkdir led/sub; echo 'gitdir: ../../planted' > led/sub/.git"),
        ("led/two/.git", "mkdir led/two; echo 'gitdir: /etc/.git/modules/x' > led/two/.git"),
        ("led/link/.git", "mkdir led/link; ln -s ../../planted led/link/.git"),
        ("bare/config", "git init -q --bare bare; git -C bare config core.fsmonitor ./x"),
        ("bare2/hooks", "git init -q --bare bare2; cp /bin/true bare2/hooks/post-index-change"),
        ("away/.git/config", "git init -q away; git -C away config core.worktree /tmp"),
    ],
)
def test_what_leads_git_to_other_configuration_is_moved(desk, made, command):
    before = "mkdir -p planted; test -d led/.git || git init -q led; "
    program = f"import subprocess; subprocess.run({before + command!r}, shell=True, check=True)"
    assert {"kind": "quarantine", "what": made} in run(desk, program)["blocked"]
    assert desk.file(made) is None


def test_what_a_call_of_a_held_folder_creates_is_moved_before_the_next_one(folder):
    (folder.folder / "make.py").write_text(MAKE)
    folder.runs("python3 make.py")
    folder.runs("true")
    assert not (folder.folder / ".husky").exists()
    assert (folder.folder / "plain.txt").read_text() == "plain"
    reviewer = Desk(folder.product, folder.product.person_token("rob", "reviewer"))
    asked = card(reviewer, ".husky")
    reviewer.call("POST", f"/actions/{asked['id']}/decision", {"verdict": "approve", "digest": asked["digest"]})
    until = time.monotonic() + 20
    while not (folder.folder / ".husky").exists() and time.monotonic() < until:
        time.sleep(0.1)
    hook = folder.folder / ".husky/pre-commit"
    assert (hook.read_bytes(), hook.stat().st_mode & 0o777) == (HOOK, 0o755)
    folder.runs("true")
    assert hook.exists()


def test_what_appears_while_a_program_runs_in_the_background_is_named_and_stays(folder):
    later = (
        "(git init -q later && sleep 2 && mkdir -p .idea && echo x > .idea/workspace.xml && "
        "git -C later config core.fsmonitor ./x; touch done; sleep 30) >/dev/null 2>&1 & sleep 1"
    )
    (folder.folder / "later.sh").write_text(later)
    folder.runs("bash later.sh")
    until = time.monotonic() + 20
    while not (folder.folder / "done").exists() and time.monotonic() < until:
        time.sleep(0.1)
    for _ in range(2):
        folder.runs("true")
    shown = folder.product.shell(
        "from dashboard.models import Event\n"
        "print(sorted(e.data['path'] for e in Event.objects.filter(verb='file.appeared')))"
    )
    assert "['.idea', 'later/.git/config']" in shown
    assert (folder.folder / ".idea/workspace.xml").exists()


def test_calls_are_held_from_connect_on_where_that_is_possible(folder):
    other = folder.root / "other"
    other.mkdir()
    give(other, folder.calls.as_user.get("user"))
    done = folder.product.manage("connect", "claude-code", str(other))
    assert done.returncode == 0, done.stderr
    assert "Shell calls that need no approval run in a box that the kernel holds" in done.stdout
    assert "“Stop holding calls” on the page of other" in done.stdout
    below = Path(tempfile.mkdtemp(prefix="handrail-below-tmp-"))
    give(below, folder.calls.as_user.get("user"))
    done = folder.product.manage("connect", "claude-code", str(below))
    assert done.returncode == 0, done.stderr
    assert "Calls in a folder below /tmp cannot be held" in done.stdout
    shutil.rmtree(below)

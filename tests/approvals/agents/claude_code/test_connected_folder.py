"""`connect` on a repository with hooks of its own: Claude Code works through a small task, one step is taken back."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.approvals.agents.claude_code.conftest import Reviewer
from tests.approvals.agents.claude_code.model import DONE, call
from tests.approvals.agents.claude_code.session import Project

OWN = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo stopped >> stops"}]}]}}


def git(folder, *args) -> str:
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
    return subprocess.run(["git", *identity, *args], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def as_own_user(claude, model):
    """`as_own_user(product)`: a project where Claude Code runs as the user that runs Handrail, with no hook yet."""
    made = []

    def at(product) -> Project:
        project = Project(claude, model.url, product.url, token="none")
        made.append((project, product))
        if os.geteuid() == 0:
            project.as_root = False
            for path in [project.root, *project.root.rglob("*")]:
                os.chown(path, 0, 0)
        project.hooks.unlink()
        return project

    yield at
    for project, product in made:
        product.manage("disconnect", str(project.folder))
        project.close()


@pytest.fixture
def own_folder(as_own_user, product):
    """A repository whose committed settings hold a hook."""
    project = as_own_user(product)
    project.hooks.write_text(json.dumps(OWN))
    (project.folder / ".gitignore").write_text("stops\nran\n")
    (project.folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    git(project.folder, "init", "-q")
    git(project.folder, "add", ".")
    git(project.folder, "commit", "-qm", "one")
    return project


@pytest.fixture
def waiting(as_own_user, new_product, model, session):
    """A product of its own, and Claude Code in a folder connected to it, which waits for an answer."""
    restarted = new_product()
    restarted.start()
    project = as_own_user(restarted)
    done = restarted.manage("connect", "claude-code", str(project.folder))
    assert done.returncode == 0, done.stderr
    model.scripts["SHIP"] = [[call("Bash", command="./deploy.sh one")], DONE]
    running = project.start("SHIP it", session=session)
    reviewer = Reviewer(restarted)
    reviewer.card(session)
    return restarted, project, running, reviewer


def test_a_wait_survives_a_restart_of_the_whole_desk(waiting, session):
    restarted, project, running, reviewer = waiting
    restarted.stop(within=60)
    restarted.start()
    assert running.poll() is None
    reviewer.answer(reviewer.card(session), "approve")
    project.finish(running, within=120)
    assert project.ran == ["one"]
    assert [action["status"] for action in reviewer.actions(session)] == ["succeeded"]


def test_nothing_runs_when_the_hook_and_its_shell_are_killed(waiting, model, session):
    _, project, running, _ = waiting
    hooks = [pid for pid in below(running.pid) if "command_hook.py" in command_line(pid)]
    assert hooks
    for pid in hooks:
        os.kill(pid, signal.SIGKILL)
    project.finish(running, within=120)
    assert project.ran == []


def below(pid: int) -> list[int]:
    """The descendants of a process, parents first."""
    try:
        children = [
            int(child)
            for task in Path(f"/proc/{pid}/task").iterdir()
            for child in (task / "children").read_text().split()
        ]
    except OSError:
        return []
    return [found for child in children for found in (child, *below(child))]


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_a_whole_small_task_one_step_taken_back_and_disconnected(own_folder, model, product, reviewer, session):
    folder = own_folder.folder
    done = product.manage("connect", "claude-code", str(folder))
    assert done.returncode == 0, done.stderr
    wrong, right = "return a - b", "return a + b"
    model.scripts["MEND"] = [
        [call("Read", file_path=str(folder / "calc.py"))],
        [call("Edit", file_path=str(folder / "calc.py"), old_string=wrong, new_string=right)],
        [call("Write", file_path=str(folder / "notes.md"), content="mended\n")],
        [call("Bash", command="./deploy.sh one")],
        DONE,
    ]
    running = own_folder.start("MEND it", session=session)
    reviewer.answer(reviewer.card(session), "approve")
    own_folder.finish(running, within=120)
    assert own_folder.ran == ["one"]
    assert (folder / "notes.md").read_text() == "mended\n"
    assert right in (folder / "calc.py").read_text()
    assert (folder / "stops").read_text() == "stopped\n"  # the repository's own hook ran as well

    write = next(action for action in reviewer.actions(session) if action["tool"] == "Write")
    lead = product.person_token("lead-of-connected", "lead")
    address = f"/api/v1/workspaces/{write['workspace']}"
    assert product.post(f"{address}/snapshots/{write['snapshot_before']}/restore", lead).status == 202
    while product.get(f"{address}?wait=5", lead).json["busy"]:
        pass
    assert not (folder / "notes.md").exists()
    assert right in (folder / "calc.py").read_text()

    assert product.manage("disconnect", str(folder)).returncode == 0
    assert git(folder, "status", "--short") == " M calc.py\n"
    assert json.loads((folder / ".claude/settings.json").read_text()) == OWN
    assert not (folder / ".claude/settings.local.json").exists()

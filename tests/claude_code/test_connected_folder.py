"""`connect` on a repository with hooks of its own: Claude Code works through a small task, one step is taken back."""

import json
import os
import subprocess

import pytest

from tests.claude_code.model import DONE, call
from tests.claude_code.session import Project

OWN = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "echo stopped >> stops"}]}]}}


def git(folder, *args) -> str:
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
    return subprocess.run(["git", *identity, *args], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def own_folder(claude, model, product):
    """A repository whose committed settings hold a hook; Claude Code runs in it as the user that runs Handrail."""
    project = Project(claude, model.url, product.url, token="none")
    if os.geteuid() == 0:
        project.as_root = False
        for path in [project.root, *project.root.rglob("*")]:
            os.chown(path, 0, 0)
    project.hooks.write_text(json.dumps(OWN))
    (project.folder / ".gitignore").write_text("stops\nran\n")
    (project.folder / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    git(project.folder, "init", "-q")
    git(project.folder, "add", ".")
    git(project.folder, "commit", "-qm", "one")
    yield project
    product.manage("disconnect", str(project.folder))
    project.close()


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

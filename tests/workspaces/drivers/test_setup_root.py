"""What a setup that runs as root finds in its environment: git works in files of the workspace's user."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from workspaces.drivers import setup_root
from workspaces.drivers.base import RunSpec

SCRIPT = """
git init -q
git status
git add file
git commit -qm first
git -C module init -q
git -C module status
"""


def variables(tmp_path: Path, phase: str, **env) -> dict:
    spec = RunSpec("run", "", "key", tmp_path, tmp_path, uid=1234, phase=phase, env=env)
    return setup_root.variables(spec)


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("git") is None, reason="root and git")
@pytest.mark.parametrize("phase", ["setup", "agent"])
def test_git_works_for_root_in_files_of_the_workspace_in_setup_alone(tmp_path, phase):
    own = {"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "user.name", "GIT_CONFIG_VALUE_0": "s"}
    own |= {"GIT_CONFIG_KEY_1": "user.email", "GIT_CONFIG_VALUE_1": "s@example.org"}
    root = tmp_path / "workspace"
    (root / "module").mkdir(parents=True)
    (root / "file").write_text("x")
    for path in (root, root / "file", root / "module"):
        os.chown(path, 1234, 1234)
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1"}
    env |= variables(tmp_path, phase, **own)
    subprocess.run(["git", "init", "-q"], cwd=root, env=env, check=True)
    for folder, _, files in os.walk(root):
        for name in (folder, *(os.path.join(folder, file) for file in files)):
            os.chown(name, 1234, 1234)
    done = subprocess.run(["bash", "-e", "-c", SCRIPT], cwd=root, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == (phase == "setup"), done.stderr
    assert ("dubious ownership" in done.stderr) == (phase != "setup")


def test_a_variable_of_the_environment_is_kept_and_says_what_it_said(tmp_path):
    assert variables(tmp_path, "agent", USER="x", A="b") == {"USER": "x", "A": "b"}
    found = variables(tmp_path, "setup", USER="x", GIT_CONFIG_COUNT="odd")
    assert (found["USER"], found["GIT_CONFIG_COUNT"], found["GIT_CONFIG_VALUE_0"]) == ("x", "1", "*")

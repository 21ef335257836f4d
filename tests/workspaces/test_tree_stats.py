"""What git tracks is read from its index without git: the runner parses nothing of an agent with libgit2."""

import subprocess

import pytest

from tests.support import CHECKOUT
from workspaces.runner.measure import tree_stats
from workspaces.store import LocalTree


@pytest.fixture
def repository(tmp_path):
    def git(*words):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-q")
    for name in ("a", "odd \udcff", "folder"):
        if name == "folder":
            (tmp_path / name).mkdir()
            name += "/b"
        (tmp_path / name).write_text(name[0])
    git("add", "-A")
    (tmp_path / "new").write_text("")
    return tmp_path, git


def counted(path):
    found = tree_stats.count(LocalTree(path), [b"a", b"odd *", b"folder", b"new"])
    return found.tracked, found.untracked, found.unknown


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_each_form_of_an_index_is_read(repository, version):
    path, git = repository
    git("update-index", "--index-version", version)
    assert counted(path) == (3, 1, 0)


@pytest.mark.parametrize("index", [b"", b"DIRC", b"DIRC" + b"\xff" * 200, b"DIRC\0\0\0\4\0\0\0\1" + b"\xff" * 90])
def test_an_index_that_cannot_be_read_leaves_open_what_is_tracked(repository, index):
    path, _ = repository
    (path / ".git" / "index").write_bytes(index)
    assert counted(path) == (0, 0, 4)


def test_the_runner_has_no_libgit2():
    using = [path for path in (CHECKOUT / "workspaces" / "runner").rglob("*.py") if "pygit2" in path.read_text()]
    assert using == []

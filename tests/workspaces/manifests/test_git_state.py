"""What is not committed, read without git: compared with what git itself says of the same files."""

import os
import subprocess

import pytest

from workspaces.git_files import patterns
from workspaces.manifests import git_state
from workspaces.manifests.lock_files import lock_files_of
from workspaces.store import LocalTree

IDENTITY = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
STATES = {"??": "untracked", " M": "modified", " D": "deleted", "M ": "staged", "A ": "staged", "D ": "staged"}


@pytest.fixture(params=["sha1", "sha256"])
def git(tmp_path, request):
    """`git("add", ".")` in a new repository of five committed files."""

    def run(*args):
        done = subprocess.run(["git", *IDENTITY, *args], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout

    run("init", "-q", "-b", "main", f"--object-format={request.param}")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name in ("one", "two", "three", "deep/four", "deep/er/five"):
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / ".gitignore").write_text("*.o\nbuilt/\n!kept.o\n")
    run("add", ".")
    run("commit", "-qm", "first")
    return run


def dirty(path) -> dict:
    with LocalTree(path).files() as files:
        told, _ = git_state.git_of(files)
        return git_state.dirty_of(files, told["sha"])


def by_path(found: dict) -> dict:
    return {file["path"]: file["state"] for file in found["files"]}


def as_git_says(git) -> dict:
    listed = [line for line in git("status", "--porcelain", "-z").split("\0") if line]
    return {line[3:]: STATES[line[:2]] for line in listed}


def change(path, git):
    """Something of each kind."""
    (path / "one").write_text("changed\n")
    (path / "two").unlink()
    (path / "three").write_text("staged\n")
    git("add", "three")
    (path / "deep" / "four").chmod(0o755)
    git("rm", "-q", "--cached", "deep/er/five")
    (path / "deep" / "er" / "five").unlink()
    (path / "new").write_text("new\n")
    (path / "ignored.o").write_text("o")
    (path / "kept.o").write_text("o")
    (path / "built").mkdir()
    (path / "built" / "thing").write_text("b")
    (path / "fresh" / "inside").mkdir(parents=True)
    (path / "fresh" / "inside" / "file").write_text("f")
    (path / "empty").mkdir()
    os.symlink("nowhere", path / "link")


def test_a_clean_checkout_has_nothing(tmp_path, git):
    assert dirty(tmp_path) == {"count": 0, "files": [], "cut_off": ""}


@pytest.mark.parametrize("version", ["2", "3", "4"])
def test_each_kind_of_change_is_what_git_says(tmp_path, git, version):
    git("update-index", "--index-version", version)
    change(tmp_path, git)
    found = dirty(tmp_path)
    assert by_path(found) == as_git_says(git)
    assert set(by_path(found).values()) == {"modified", "deleted", "staged", "untracked"}
    assert (found["count"], found["cut_off"]) == (9, "")


def test_a_packed_repository_is_read_through_its_deltas(tmp_path, git):
    many = [f"line {number}\n" for number in range(2000)]
    for number in range(5):
        (tmp_path / "long").write_text("".join(many[number:]))
        (tmp_path / f"file-{number}").write_text("x")
        git("add", ".")
        git("commit", "-qm", str(number))
    git("gc", "-q", "--aggressive")
    assert not any(len(folder.name) == 2 for folder in (tmp_path / ".git" / "objects").iterdir())
    change(tmp_path, git)  # the index no longer knows the tree of the commit
    assert by_path(dirty(tmp_path)) == as_git_says(git)


def test_a_touched_file_is_compared_by_its_content(tmp_path, git):
    os.utime(tmp_path / "one", (1, 1))
    assert dirty(tmp_path)["count"] == 0


def test_before_the_first_commit_what_is_added_is_staged(tmp_path):
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=tmp_path, check=True)
    (tmp_path / "a").write_text("a")
    subprocess.run(["git", "add", "a"], cwd=tmp_path, check=True)
    assert by_path(dirty(tmp_path)) == {"a": "staged"}


def test_no_setting_of_the_repository_runs_anything(tmp_path, git):
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\ncat\n")
    trap.chmod(0o755)
    git("config", "filter.trap.clean", str(trap))
    git("config", "core.fsmonitor", str(trap))
    git("config", "core.hooksPath", str(tmp_path))
    (tmp_path / ".gitattributes").write_text("* filter=trap\n")
    (tmp_path / "one").write_text("changed\n")
    assert by_path(dirty(tmp_path))["one"] == "modified"
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("damage", [b"", b"DIRC", b"DIRC" + b"\0\0\0\2\0\0\0\5" + b"x" * 50, b"not an index" * 9])
def test_a_damaged_index_is_named(tmp_path, git, damage):
    (tmp_path / ".git" / "index").write_bytes(damage)
    found = dirty(tmp_path)
    assert (found["count"], bool(found["cut_off"])) == (0, True)


def test_more_than_the_limit_is_cut_off_and_said(tmp_path, git, monkeypatch):
    monkeypatch.setattr(git_state, "MAX_INDEXED", 3)
    assert dirty(tmp_path)["cut_off"] == "the index has more than 3 entries"
    monkeypatch.undo()
    monkeypatch.setattr(git_state, "NAMED", 2)
    change(tmp_path, git)
    found = dirty(tmp_path)
    assert (found["count"], len(found["files"])) == (9, 2)
    monkeypatch.setattr(git_state, "SECONDS", -1.0)
    assert dirty(tmp_path)["cut_off"].startswith("not all was compared within")


def test_the_time_that_patterns_may_take_ends_inside_one_path(tmp_path, git, monkeypatch):
    git("rm", "-rq", "deep")  # no folder is looked at after the file
    (tmp_path / ".gitignore").write_text(("*z" * 60 + "b\n") * 2000)
    git("commit", "-qam", "slow")
    (tmp_path / ("z" * 250)).touch()
    written = os.stat(tmp_path / ".git" / "index").st_mtime + 10  # so that no file has to be compared by content
    os.utime(tmp_path / ".git" / "index", (written, written))
    monkeypatch.setattr(git_state, "SECONDS", 0.2)
    assert dirty(tmp_path)["cut_off"].startswith("not all was compared within")


def test_more_patterns_than_all_ignore_files_may_have_are_reported(tmp_path, git, monkeypatch):
    monkeypatch.setattr(patterns, "MAX_IN_ALL", 2)
    assert dirty(tmp_path)["cut_off"] == "the ignore files have more than 2 patterns"


def test_branch_commit_and_upstream(tmp_path, git):
    sha = git("rev-parse", "HEAD").strip()
    git("config", "branch.main.remote", "origin")
    git("config", "branch.main.merge", "refs/heads/trunk")
    git("update-ref", "refs/remotes/origin/trunk", sha)
    with LocalTree(tmp_path).files() as files:
        assert git_state.git_of(files) == ({"branch": "main", "sha": sha}, {"name": "origin/trunk", "sha": sha})
    git("pack-refs", "--all")
    git("checkout", "-q", "--detach")
    with LocalTree(tmp_path).files() as files:
        assert git_state.git_of(files) == ({"branch": None, "sha": sha}, None)


def test_lock_files_have_the_digest_that_sha256sum_prints(tmp_path):
    for name in ("poetry.lock", "web/package-lock.json", "requirements-dev.txt", "node_modules/x/package-lock.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    with LocalTree(tmp_path).files() as files:
        found = {file["path"]: file["sha256"] for file in lock_files_of(files)}
    names = ["poetry.lock", "requirements-dev.txt", "web/package-lock.json"]
    told = subprocess.run(["sha256sum", *names], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert found == {line.split()[1]: line.split()[0] for line in told.splitlines()}


def test_a_folder_in_the_place_of_a_file_is_named_beside_the_file_that_is_gone(tmp_path, git):
    (tmp_path / "one").unlink()
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "inside").write_text("new\n")
    assert by_path(dirty(tmp_path)) == {"one": "deleted", "one/": "untracked"}
    assert git("status", "--porcelain", "-uall").splitlines() == [" D one", "?? one/inside"]

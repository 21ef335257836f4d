"""Which changed files a review leaves out: those that git would not list in either tree, and what tools build."""

import struct
import subprocess

import pytest

from workspaces.changes import ignored
from workspaces.git_files import patterns
from workspaces.git_files.work import Work
from workspaces.store import LocalTree, Store

CHANGED = [b"app.log", b"debug.log", b"src/made/a.o", b"src/made/kept.o", b"node_modules/x/index.js", b"src/main.py"]


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    monkeypatch.setattr(ignored, "SECONDS", 100)


@pytest.fixture
def store(tmp_path):
    return Store.create(tmp_path / "store")


@pytest.fixture
def work(tmp_path):
    """A folder with a file at each of CHANGED and ignore files that match all but the last; no repository."""
    made = tmp_path / "work"
    for name in map(bytes.decode, CHANGED):
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text("1\n")
    (made / ".gitignore").write_text("*.log\n")
    (made / "src" / ".gitignore").write_text("made/\n")
    return made


def git(folder, *words):
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def left_out(store, work, before=None) -> set[bytes]:
    tree = store.snapshot(LocalTree(work)).tree
    return set(ignored.ignored(store, (before or tree, tree), CHANGED))


def test_what_git_ignores_and_tools_build(store, work):
    assert left_out(store, work) == set(CHANGED[:-1])


def test_a_file_that_git_tracks_is_shown_though_a_pattern_matches(store, work):
    before = store.snapshot(LocalTree(work)).tree
    git(work, "init", "-q")
    tracked = ["debug.log", "src/made/kept.o", "node_modules/x/index.js"]
    git(work, "add", "-f", *tracked, "src/main.py")
    wanted = {b"app.log", b"src/made/a.o"}
    assert left_out(store, work, before) == left_out(store, work) == wanted
    listed = subprocess.run(["git", "ls-files", "-oi", "--exclude-standard"], cwd=work, capture_output=True, check=True)
    assert wanted <= set(listed.stdout.split())


def test_a_repository_inside_has_its_own_index(store, work):
    git(work / "src", "init", "-q")
    git(work / "src", "add", "-f", "made/kept.o")
    assert left_out(store, work) == set(CHANGED[:-1]) - {b"src/made/kept.o"}


def test_an_ignored_repository_inside_is_left_out(store, work):
    git(work / "src" / "made", "init", "-q")
    git(work / "src" / "made", "add", "-f", "kept.o")
    assert left_out(store, work) == set(CHANGED[:-1])


def test_nothing_is_left_out_where_what_git_tracks_is_not_known(store, work):
    git(work, "init", "-q")
    (work / ".git" / "index").write_bytes(b"DIRC of another form")
    assert left_out(store, work) == set()


def test_nothing_is_left_out_once_it_takes_too_much_work(store, work, monkeypatch):
    monkeypatch.setattr(ignored, "Work", lambda size, seconds: Work(40, seconds))
    assert left_out(store, work) == set()


def test_what_takes_effect_or_may_hold_secrets_is_shown(store, work):
    (work / ".gitignore").write_text("*\n")
    tree = store.snapshot(LocalTree(work)).tree
    shown = [b".env", b".gitignore", b".claude/settings.json", b".git/config"]
    assert ignored.ignored(store, (tree, tree), [*shown, b"other"]) == {b"other"}


def test_nothing_is_left_out_where_an_index_is_made_to_take_much(store, work):
    git(work, "init", "-q")
    entry = struct.pack(">10I20sH", *[0] * 6, 0o100644, 0, 0, 0, bytes(20), 1)
    for data in (b"DIRC\0\0\0\2\0\0\0\1" + entry + b"a" * 90, b"DIRC\0\0\0\4\0\0\x20\0" + (entry + b"\0a\0") * 8192):
        (work / ".git" / "index").write_bytes(data)
        assert left_out(store, work) == set()


# Each of these patterns is tried with all of a name of these letters before the first line of a file matches.
SLOW = "a*\n" + ("*a" * 14 + "b\n") * 1999
LONG_NAME = "a" * 250


def test_the_time_that_patterns_may_take_ends_inside_one_path(store, work, monkeypatch):
    (work / ".gitignore").write_text("a*\n")
    before = store.snapshot(LocalTree(work)).tree
    (work / ".gitignore").write_text(SLOW)
    after = store.snapshot(LocalTree(work)).tree
    monkeypatch.setattr(ignored, "SECONDS", 0.02)
    assert ignored.ignored(store, (before, after), [LONG_NAME.encode()]) == frozenset()


def test_nothing_is_left_out_beyond_the_patterns_of_all_ignore_files_together(store, work, monkeypatch):
    monkeypatch.setattr(patterns, "MAX_IN_ALL", 1)
    assert left_out(store, work) == set()

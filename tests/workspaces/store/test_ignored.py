"""Files that an environment ignores: not in snapshots, untouched by a restore, equal in a comparison."""

import subprocess
from functools import partial

import pytest

from workspaces.runner.snapshot_ignore import Ignoring, rules_for

TEXT = "build/\n*.log\n!keep.log\n"


@pytest.fixture
def ignoring(tree):
    """The tree, whose snapshots leave out what the patterns match."""
    tree.rules = partial(rules_for, TEXT, tree)
    return tree


def git(work, *args):
    identity = ["-c", "user.name=T", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *identity, *args], cwd=work, check=True, capture_output=True)


def add_ignored(work, text):
    (work / "build" / "deep").mkdir(parents=True, exist_ok=True)
    (work / "build" / "deep" / "object.o").write_text(text)
    (work / "src" / "debug.log").write_text(text)


def test_their_content_is_not_stored_and_a_restore_leaves_them(store, ignoring, work, tmp_path):
    add_ignored(work, "one")
    (work / "keep.log").write_text("kept")
    taken = store.snapshot(ignoring)
    assert [(entry.path, entry.reason) for entry in taken.skipped] == [
        (b"build", "ignored by the environment"),
        (b"src/debug.log", "ignored by the environment"),
    ]
    assert store.read(taken.tree, b"keep.log") == b"kept"
    assert not store.entry(taken.tree, b"build").kept
    add_ignored(work, "two")
    assert store.snapshot(ignoring).tree == taken.tree
    (work / "README.md").unlink()
    store.restore(taken.tree, ignoring, journal=tmp_path / "journal")
    assert (work / "README.md").read_text() == "# Words\n"
    assert (work / "build" / "deep" / "object.o").read_text() == (work / "src" / "debug.log").read_text() == "two"
    assert store.compare(taken.tree, ignoring, full=True).differ == []


def test_a_snapshot_from_before_the_patterns_does_not_bring_them_back(store, tree, work, tmp_path):
    add_ignored(work, "old")
    before = store.snapshot(tree)
    tree.rules = partial(rules_for, TEXT, tree)
    add_ignored(work, "new")
    (work / "src" / "main.py").write_text("changed\n")
    assert store.compare(before.tree, tree).differ == [b"src/main.py"]
    store.restore(before.tree, tree, journal=tmp_path / "journal")
    assert (work / "src" / "main.py").read_text() == "print('hello')\n"
    assert (work / "src" / "debug.log").read_text() == "new"


def test_a_folder_that_is_gone_in_the_snapshot_stays_with_them(store, ignoring, work, tmp_path):
    taken = store.snapshot(ignoring)
    (work / "later").mkdir()
    (work / "later" / "a.py").write_text("new")
    (work / "later" / "a.log").write_text("log")
    changed = store.snapshot(ignoring)
    assert [change.path for change in store.diff(taken.tree, changed.tree)] == [b"later", b"later/a.py"]
    store.restore(taken.tree, ignoring, journal=tmp_path / "journal")
    assert sorted(path.name for path in (work / "later").iterdir()) == ["a.log"]


def test_what_git_tracks_is_stored_though_a_pattern_matches(store, ignoring, work):
    git(work, "init", "-q")
    add_ignored(work, "one")
    (work / "build" / "kept.txt").write_text("tracked")
    git(work, "add", "-f", "build/kept.txt", "src/debug.log")
    taken = store.snapshot(ignoring)
    assert store.read(taken.tree, b"build/kept.txt") == b"tracked"
    assert store.read(taken.tree, b"src/debug.log") == b"one"
    assert [entry.path for entry in taken.skipped] == [b"build/deep"]
    git(work, "rm", "-q", "--cached", "src/debug.log")
    assert [entry.path for entry in store.snapshot(ignoring).skipped] == [b"build/deep", b"src/debug.log"]


def test_nothing_is_left_out_where_the_index_cannot_be_read(store, ignoring, work):
    git(work, "init", "-q")
    (work / ".git" / "index").write_bytes(b"not an index")
    add_ignored(work, "one")
    assert store.snapshot(ignoring).skipped == []


def test_files_that_take_effect_by_themselves_are_never_left_out():
    rules = Ignoring("*\n")
    kept = [b".claude", b".git", b".github", b".vscode", b".handrail"]
    assert [path for path in (*kept, b"src") if not rules(path, True)] == kept
    assert not rules(b".claude/settings.json", False)
    assert not rules(b".github/workflows", True)
    assert rules(b".github/notes.md", False)
    assert not rules(b".mcp.json", False)

"""Three trees are merged as git merges commits: what is taken, what stays, and what is a conflict."""

import os

import pytest

from workspaces.store import Cancelled, LocalTree
from workspaces.store.diff import below
from workspaces.store.line_merge import merging_lines
from workspaces.store.merge import REMOVED_HERE, REMOVED_THERE, RENAMED_TWICE, TEXT, WHOLE, merge
from workspaces.store.objects import EMPTY, FILE, SYMLINK, TARGET, Entry
from workspaces.store.overlay import overlay
from workspaces.store.writer import Writer

LINES = b"".join(b"line %d\n" % number for number in range(1, 21))


class Trees:
    """Trees in a store, as {path: bytes of a text, (bytes, mode), or str for the target of a link}."""

    def __init__(self, store, tmp_path):
        self.store = store
        (tmp_path / "empty").mkdir()
        self.empty = store.root(store.snapshot(LocalTree(tmp_path / "empty")).tree)

    def put(self, *trees: dict) -> list[str]:
        writer = Writer(self.store.catalog)
        ids = []
        for files in trees:
            leaves = {path.encode(): self._entry(writer, what) for path, what in files.items()}
            ids.append(overlay(writer, self.empty, leaves, {}, self.empty))
        writer.commit(ids[-1])
        return ids

    def _entry(self, writer, what) -> Entry:
        if isinstance(what, str):
            link = what.encode()
            content = writer.add(link)
            return Entry(b"", SYMLINK, 0, 0o777, 1, 1, 0, len(link), content, {TARGET: link})
        data, mode = what if isinstance(what, tuple) else (what, 0o644)
        content = writer.add(data) if data else EMPTY
        return Entry(b"", FILE, 0, mode, 1, 1, 0, len(data), content, {})

    def get(self, tree: str) -> dict:
        found = {}
        for path, entry in below(self.store.catalog.folder, b"", self.store.root(tree)):
            if entry.kind == SYMLINK:
                found[os.fsdecode(path[1:])] = os.fsdecode(entry.target)
            elif entry.kind == FILE:
                data = self.store.read(tree, path[1:])
                found[os.fsdecode(path[1:])] = data if entry.mode == 0o644 else (data, entry.mode)
        return found

    def merge(self, base: dict, here: dict, coming: dict, **how):
        done = merge(self.store, *self.put(base, here, coming), **how)
        return self.get(done.tree), done


@pytest.fixture
def trees(store, tmp_path):
    return Trees(store, tmp_path)


def of(done) -> list[tuple]:
    return [(os.fsdecode(conflict.path), conflict.why, conflict.lines) for conflict in done.conflicts]


def changed(*numbers, words=b"changed") -> bytes:
    lines = LINES.splitlines(keepends=True)
    for number in numbers:
        lines[number - 1] = words + b" %d\n" % number
    return b"".join(lines)


def test_a_file_that_only_one_side_changed_is_taken_from_it(trees):
    base = {"a": b"a\n", "b": b"b\n", "c": b"c\n", "gone": b"gone\n", "old": b"old name\n"}
    here = base | {"a": b"mine\n", "b": (b"b\n", 0o755), "mine": b"new\n"}
    coming = {"a": b"a\n", "b": b"b\n", "c": b"c2\n", "new": b"new\n", "name": b"old name\n", "d/e": b"e\n"}
    merged, done = trees.merge(base, here, coming)
    kept = {"a": b"mine\n", "b": (b"b\n", 0o755), "mine": b"new\n"}
    assert merged == kept | {"c": b"c2\n", "new": b"new\n", "name": b"old name\n", "d/e": b"e\n"}
    assert done.taken == [b"c", b"d/e", b"gone", b"name", b"new", b"old"]
    assert done.conflicts == []


def test_lines_that_do_not_overlap_are_merged(trees):
    here, coming = changed(2, words=b"here"), changed(18, words=b"there")
    merged, done = trees.merge({"a": LINES}, {"a": here}, {"a": (coming, 0o755)})
    both = here.splitlines(keepends=True)[:17] + coming.splitlines(keepends=True)[17:]
    assert (merged, done.taken, done.conflicts) == ({"a": (b"".join(both), 0o755)}, [b"a"], [])


def test_lines_that_both_changed_are_marked_and_named(trees):
    here, coming = changed(5, words=b"here"), changed(5, 18, words=b"there")
    merged, done = trees.merge({"a": LINES}, {"a": here}, {"a": coming}, name="revision 2")
    lines = merged["a"].splitlines()
    assert lines[4:9] == [b"<<<<<<< here", b"here 5", b"=======", b"there 5", b">>>>>>> revision 2"]
    assert lines[21] == b"there 18"
    assert of(done) == [("a", TEXT, [(5, 9)])]
    assert done.taken == []


def test_a_renamed_file_keeps_the_edits_of_the_other_side(trees):
    there = {"d/new": changed(3, words=b"there"), "x": b"x\n"}
    base, here = {"old": LINES, "x": b"x\n"}, {"old": changed(19, words=b"here"), "x": b"x\n"}
    both = changed(3, words=b"there").splitlines(keepends=True)[:18] + changed(19, words=b"here").splitlines(True)[18:]
    merged, done = trees.merge(base, here, there)
    assert (merged, done.conflicts) == ({"d/new": b"".join(both), "x": b"x\n"}, [])
    merged, done = trees.merge(base, there, here)
    assert (merged, done.conflicts) == ({"d/new": b"".join(both), "x": b"x\n"}, [])


@pytest.mark.parametrize(
    ("base", "here", "coming", "merged", "conflict"),
    [
        ({"a": b"1"}, {}, {"a": b"2"}, {"a": b"2"}, ("a", REMOVED_HERE)),
        ({"a": b"1"}, {"a": b"2"}, {}, {"a": b"2"}, ("a", REMOVED_THERE)),
        ({"a": b"\0"}, {"a": b"\0h"}, {"a": b"\0c"}, {"a": b"\0h", "a~new": b"\0c"}, ("a", WHOLE)),
        ({"a": "x"}, {"a": "h"}, {"a": "c"}, {"a": "h", "a~new": "c"}, ("a", WHOLE)),
        ({"a": b"1"}, {"a": b"h"}, {"a/b": b"c"}, {"a/b": b"c", "a~here": b"h"}, ("a", WHOLE)),
        ({"a": b"1"}, {"a/b": b"h"}, {"a": b"c"}, {"a/b": b"h", "a~new": b"c"}, ("a", WHOLE)),
        ({"a": LINES}, {"h": LINES}, {"c": LINES}, {"h": LINES, "c": LINES}, ("c", RENAMED_TWICE)),
        ({"a": LINES}, {}, {"c": LINES}, {"c": LINES}, ("c", REMOVED_HERE)),
        ({"a": LINES}, {"h": LINES}, {}, {"h": LINES}, ("h", REMOVED_THERE)),
        ({"a": LINES}, {"a": "h"}, {"c": LINES}, {"a": "h", "c": LINES}, ("a", WHOLE)),
        ({"a": LINES}, {"h": LINES}, {"a": "c"}, {"a": "c", "h": LINES}, ("a", WHOLE)),
        (
            {"a": LINES},
            {"h": LINES},
            {"h": b"c", "a": b"1"},
            {"h": LINES, "a": b"1", "h~new": b"c"},
            ("h", RENAMED_TWICE),
        ),
    ],
)
def test_what_has_no_lines_to_merge_loses_neither_side(trees, base, here, coming, merged, conflict):
    found, done = trees.merge(base | {"k": b"k"}, here | {"k": b"k"}, coming | {"k": b"k"}, name="new")
    assert found == merged | {"k": b"k"}
    assert [told[:2] for told in of(done)] == [conflict]


def test_what_the_base_only_seems_to_have_stays(trees):
    base, here, coming = {"a": b"1\n", "built": b"b\n"}, {"a": b"1\n", "built": b"b\n"}, {"a": b"2\n"}
    merged, done = trees.merge(base, here, coming, deletions=False)
    assert (merged, done.taken) == ({"a": b"2\n", "built": b"b\n"}, [b"a"])


def test_the_repository_here_is_left_alone(trees):
    merged, _ = trees.merge({".git/HEAD": b"1"}, {".git/HEAD": b"2"}, {"a": b"a", ".git/HEAD": b"3", "s/.git/x": b""})
    assert merged == {".git/HEAD": b"2", "a": b"a"}


def test_a_folder_goes_with_its_last_file_and_stays_with_another(trees, store):
    base, here = {"a/b/c": b"c", "d/e": b"e"}, {"a/b/c": b"c", "d/e": b"e", "d/mine": b"m"}
    _, done = trees.merge(base, here, {"k": b"k"})
    assert [entry.name for entry in store.ls(done.tree)] == [b"d", b"k"]
    assert [entry.name for entry in store.ls(done.tree, b"d")] == [b"mine"]


def test_line_ends_and_a_last_line_without_one(trees):
    base = b"one\r\ntwo\r\nthree"
    merged, done = trees.merge({"a": base}, {"a": base + b" here"}, {"a": base + b" there"})
    assert merged["a"].splitlines(keepends=True)[2:] == [
        b"<<<<<<< here\r\n", b"three here\r\n", b"=======\r\n", b"three there\r\n", b">>>>>>> coming\r\n",
    ]  # fmt: skip
    assert of(done) == [("a", TEXT, [(3, 7)])]


def test_a_line_that_looks_like_a_marker_is_a_line(trees):
    base = b"<<<<<<< x\n=======\n>>>>>>> y\n" + LINES
    merged, done = trees.merge({"a": base}, {"a": base + b"12\n"}, {"a": b"0\n" + base})
    assert (merged["a"], done.conflicts) == (b"0\n" + base + b"12\n", [])


def test_texts_that_are_too_much_to_compare_are_a_conflict_of_the_whole():
    with merging_lines(b"here", b"there") as lines:
        texts = [b"".join(b"%d\n" % (number * step) for number in range(1, 150_000)) for step in (1, 7, 11)]
        assert lines.merge(*texts) is None


def test_a_cancelled_merge_leaves_nothing(trees, store):
    class Cancel:
        def is_set(self):
            return True

    ids = trees.put({"a": b"1"}, {"a": b"1"}, {"a": b"2"})
    head = store.catalog.view.head
    with pytest.raises(Cancelled):
        merge(store, *ids, cancel=Cancel())
    store.catalog.refresh()
    assert store.catalog.view.head == head

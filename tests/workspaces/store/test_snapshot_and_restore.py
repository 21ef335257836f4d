"""A tree goes into the store and comes back as it was."""

import os
import threading

import pytest

from workspaces.store import Cancelled, LocalTree, Store, StoreError, file_reader, recover
from workspaces.store.plan import chooser


def test_a_restored_tree_is_the_one_that_was_stored(store, tree, work, tmp_path, tree_of):
    taken = store.snapshot(tree)
    (tmp_path / "copy").mkdir()
    copy = tree_of(tmp_path / "copy")
    done = store.restore(taken.tree, copy, journal=tmp_path / "journal")
    assert (done.created, done.removed, done.entries) == (taken.entries, 0, taken.entries)
    assert store.compare(taken.tree, copy, full=True).differ == []
    assert store.snapshot(copy).tree == taken.tree
    assert not (tmp_path / "journal").exists()
    assert {*os.listdir(tmp_path)} - {"store"} == {"copy", "work"}


def test_the_same_tree_adds_nothing(store, tree):
    first = store.snapshot(tree)
    again = store.snapshot(tree)
    assert (again.tree, again.added_bytes) == (first.tree, 0)


def test_a_restore_touches_only_what_differs(store, tree, work, tmp_path):
    taken = store.snapshot(tree)
    inodes = {path: path.lstat().st_ino for path in work.rglob("*")}
    (work / "README.md").write_text("other\n")
    (work / "new").mkdir()
    (work / "new" / "file").write_text("x")
    (work / "src" / "deep" / "data.bin").unlink()
    done = store.restore(taken.tree, tree, journal=tmp_path / "journal")
    assert (done.created, done.removed) == (1, 2)
    assert store.compare(taken.tree, tree, full=True).differ == []
    touched = {work / "README.md", work / "src" / "deep" / "data.bin"}
    assert {path for path, inode in inodes.items() if path.lstat().st_ino != inode} <= touched


def test_only_chosen_paths_come_back(store, tree, work, tmp_path):
    taken = store.snapshot(tree)
    (work / "README.md").write_text("other\n")
    (work / "src" / "main.py").write_text("broken")
    (work / "src" / "extra.py").write_text("more")
    store.restore(taken.tree, tree, journal=tmp_path / "journal", paths=[b"src"])
    assert (work / "README.md").read_text() == "other\n"
    assert (work / "src" / "main.py").read_text() == "print('hello')\n"
    assert not (work / "src" / "extra.py").exists()


def test_kept_paths_are_left_alone(store, tree, work, tmp_path):
    taken = store.snapshot(tree)
    (work / ".claude").mkdir()
    (work / ".claude" / "settings.local.json").write_text("{}")
    (work / ".claude" / "other").write_text("x")
    (work / "README.md").write_text("mine")
    keep = [b".claude/settings.local.json", b"README.md"]
    store.restore(taken.tree, tree, journal=tmp_path / "journal", keep=keep)
    assert os.listdir(work / ".claude") == ["settings.local.json"]
    assert (work / "README.md").read_text() == "mine"


def test_entries_that_became_another_kind_come_back(store, tree, work, tmp_path):
    taken = store.snapshot(tree)
    (work / "link").unlink()
    (work / "link").mkdir()
    (work / "link" / "inner").write_text("x")
    (work / "empty").rmdir()
    (work / "empty").write_text("a file now")
    store.restore(taken.tree, tree, journal=tmp_path / "journal")
    assert store.compare(taken.tree, tree, full=True).differ == []


def test_a_cancelled_snapshot_leaves_nothing(store, tree, objects):
    before = objects(store)
    stop = threading.Event()
    stop.set()
    with pytest.raises(Cancelled):
        store.snapshot(tree, cancel=stop)
    assert objects(store) == before


def test_an_inspector_sees_new_content_and_can_refuse_it(store, tree, work):
    (work / "key.txt").write_text("token=s3cret-value")
    seen = []

    def inspect(path, data):
        seen.append(path)
        if b"s3cret" in data:
            raise ValueError(path)

    with pytest.raises(ValueError, match=r"key\.txt"):
        store.snapshot(tree, inspect=inspect)
    assert b"key.txt" in seen
    assert store.verify(full=True).objects == 0
    (work / "key.txt").unlink()
    store.snapshot(tree, inspect=inspect)
    assert store.verify(full=True).ok


def test_an_inspector_sees_names_links_and_attributes_as_well(store, tree, work):
    (work / "empty folder").mkdir()
    (work / "empty file").touch()
    os.symlink("where it leads", work / "hint")
    (work / "marked").write_text("content")
    os.setxattr(work / "marked", "user.note", b"an attribute")
    seen, seen_before = {}, []

    def before_commit():
        seen_before.append(set(seen))
        raise KeyError("no")

    def inspect(path, data):
        seen[path] = seen.get(path, b"") + data

    with pytest.raises(KeyError):
        store.snapshot(tree, inspect=inspect, before_commit=before_commit)
    assert store.verify(full=True).objects == 0
    assert {b"empty folder", b"empty file", b"hint", b"marked"} <= seen.keys() == seen_before[0]
    assert seen[b"hint"] == b"where it leads"
    assert seen[b"marked"].startswith(b"content")
    assert b"an attribute" in seen[b"marked"]


def test_progress_counts_entries_and_bytes(store, tree):
    said = []
    store.snapshot(tree, progress=said.append)
    assert said[-1].entries == 7
    again = []
    store.snapshot(tree, progress=again.append)
    assert again[-1].total_entries == 7


def test_a_folder_that_is_no_store_is_refused(tmp_path, tree):
    store = Store.create(tmp_path / "store")  # test_bucket.py says what a bucket refuses
    with pytest.raises(StoreError, match="there is no store at"):
        Store.open(tmp_path / "nothing")
    with pytest.raises(StoreError, match="is not empty"):
        Store.create(tmp_path / "work")
    (tmp_path / "store" / "format").write_text('{"format": "handrail-store", "version": 2}')
    with pytest.raises(StoreError, match="has format handrail-store 2"):
        Store.open(tmp_path / "store")
    with pytest.raises(StoreError, match="there is no folder"):
        store.snapshot(LocalTree(tmp_path / "missing"))
    with pytest.raises(StoreError, match="is not a tree id"):
        store.ls("nonsense")


def test_a_reader_sees_what_another_process_commits(store, tree, work, address):
    reader = Store.open(address)
    taken = store.snapshot(tree)
    assert reader.read(taken.tree, b"README.md") == b"# Words\n"
    assert reader.read(taken.tree, b"README.md", 2, 3) == b"Wor"
    assert [entry.name for entry in reader.ls(taken.tree)] == [b"README.md", b"empty", b"link", b"src"]


def test_recovering_nothing_is_nothing(tmp_path):
    assert recover(tmp_path / "journal") is None


def test_a_path_is_chosen_by_itself_and_by_a_folder_above_it():
    chosen = chooser([b"a/b", b"c", b"d/e/f"])
    assert [chosen(path) for path in (b"a/b", b"a/b/x/y", b"c", b"c/x", b"d/e/f")] == [True] * 5
    assert [chosen(path) for path in (b"a", b"d", b"d/e")] == [False] * 3
    assert [chosen(path) for path in (b"a/c", b"ab", b"a/bc", b"d/e/g", b"cc", b"x")] == [None] * 6
    assert chooser([b""])(b"any/path") is True


def test_choosing_looks_at_the_path_and_not_at_all_that_is_chosen():
    class Counted(bytes):
        compared = 0

        def startswith(self, *args):
            type(self).compared += 1
            return super().startswith(*args)

    chosen = chooser(Counted(b"folder/%d" % number) for number in range(20_000))
    assert sum(chosen(b"folder/%d" % number) is True for number in range(40_000)) == 20_000
    assert Counted.compared == 0


def test_large_files_are_cut_alike_however_much_is_read_at_once(monkeypatch):
    data = os.urandom(3_000_000) + bytes(2_500_000) + os.urandom(1_000_000)
    found = set()
    for window in (1 << 20, 2 << 20, 8 << 20):
        monkeypatch.setattr(file_reader, "_WINDOW", window)
        pieces = file_reader.cut(lambda length, offset: data[offset : offset + length], 0, len(data))
        found.add(tuple(len(piece) for piece in pieces))
    assert [sum(lengths) for lengths in found] == [len(data)]

"""An empty file at .handrail/manifest.json is a driver's mount point and not part of the tree."""

import hashlib
import os
import shutil

import pytest

from workspaces.store import LocalTree, mount_point


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "journal"


def names(store, tree_id, path=b""):
    return [entry.name for entry in store.ls(tree_id, path)]


def listed(tree, path=b""):
    with tree.files() as files:
        return sorted(name for name, _ in files.entries(path))


def test_a_mount_point_changes_no_tree(store, work, tree):
    before = store.snapshot(tree)
    folder = os.stat(work)
    assert mount_point.make(work, os.getuid())
    assert (os.stat(work).st_mtime_ns, (work / ".handrail/manifest.json").read_bytes()) == (folder.st_mtime_ns, b"")
    assert store.compare(before.tree, tree, full=True).differ == []
    assert store.snapshot(tree).tree == before.tree
    assert store.snapshot(tree, thorough=True).tree == before.tree
    assert b".handrail" not in listed(tree)
    assert mount_point.make(work, os.getuid())  # and again


def test_everything_else_in_its_folder_is_part_of_the_tree(store, work, tree):
    mount_point.make(work, os.getuid())
    (work / ".handrail/notes.md").write_text("done: the parser\n")
    taken = store.snapshot(tree)
    assert names(store, taken.tree, b".handrail") == [b"notes.md"] == listed(tree, b".handrail")
    assert store.compare(taken.tree, tree, full=True).differ == []
    (work / ".handrail/manifest.json").unlink()  # the next start makes it anew
    times = os.stat(work / ".handrail")
    os.utime(work / ".handrail", ns=(times.st_atime_ns, 1))
    before = store.snapshot(tree).tree
    assert mount_point.make(work, os.getuid())
    assert store.snapshot(tree).tree == before


def test_a_file_of_somebodys_own_is_seen(store, work, tree):
    path = work / ".handrail/manifest.json"
    empty = store.snapshot(tree).tree
    mount_point.make(work, os.getuid())
    path.chmod(0o644)
    path.write_text("mine")
    assert not mount_point.make(work, os.getuid())
    taken = store.snapshot(tree).tree
    assert [change.path for change in store.diff(empty, taken)] == [b".handrail", b".handrail/manifest.json"]
    assert listed(tree, b".handrail") == [b"manifest.json"]
    path.write_text("")
    os.link(path, work / "other name")
    assert not mount_point.make(work, os.getuid())
    assert names(store, store.snapshot(tree).tree, b".handrail") == [b"manifest.json"]


@pytest.mark.parametrize("kind", ["symlink", "folder", "file above", "link above"])
def test_nothing_is_made_where_something_else_is(work, tmp_path, kind):
    (tmp_path / "elsewhere").mkdir()
    if kind in ("symlink", "folder"):
        (work / ".handrail").mkdir()
    if kind == "symlink":
        (work / ".handrail/manifest.json").symlink_to(tmp_path / "elsewhere/file")
    elif kind == "folder":
        (work / ".handrail/manifest.json").mkdir()
    elif kind == "file above":
        (work / ".handrail").write_text("")
    else:
        (work / ".handrail").symlink_to(tmp_path / "elsewhere")
    assert not mount_point.make(work, os.getuid())
    assert os.listdir(tmp_path / "elsewhere") == []


def test_an_attribute_on_it_is_seen(store, work, tree):
    mount_point.make(work, os.getuid())
    path = work / ".handrail/manifest.json"
    path.chmod(0o644)
    os.setxattr(path, "user.note", b"hidden here")
    assert not mount_point.make(work, os.getuid())
    assert names(store, store.snapshot(tree).tree, b".handrail") == [b"manifest.json"]


@pytest.mark.parametrize("notes_then", [True, False])
def test_a_restore_leaves_it_in_place(store, work, tree, journal, notes_then):
    """A running workspace has a file mounted there: its folder and itself stay the same entries."""
    notes = work / ".handrail/notes.md"
    mount_point.make(work, os.getuid())
    if notes_then:
        notes.write_text("then\n")
    taken = store.snapshot(tree).tree
    inodes = [(work / name).stat().st_ino for name in (".handrail", ".handrail/manifest.json")]
    if notes_then:
        notes.unlink()
    else:
        notes.write_text("now\n")
    (work / "README.md").write_text("other\n")
    store.restore(taken, tree, journal=journal)
    assert inodes == [(work / name).stat().st_ino for name in (".handrail", ".handrail/manifest.json")]
    assert sorted(os.listdir(work / ".handrail")) == (
        ["manifest.json", "notes.md"] if notes_then else ["manifest.json"]
    )
    assert store.compare(taken, tree, full=True).differ == []


def test_a_restore_brings_somebodys_own_file_back(store, work, tree, journal):
    path = work / ".handrail/manifest.json"
    path.parent.mkdir()
    path.write_text("mine")
    taken = store.snapshot(tree).tree
    shutil.rmtree(path.parent)
    mount_point.make(work, os.getuid())
    store.restore(taken, tree, journal=journal)
    assert path.read_text() == "mine"
    assert store.compare(taken, tree, full=True).differ == []


# Content that is put there, where nothing can be mounted --------------------------------------------------------------

OWNER = (os.getuid(), os.getgid())


def knowing(*contents):
    return lambda: frozenset(hashlib.sha256(content).hexdigest() for content in contents)


def test_content_that_was_put_there_is_not_part_of_the_tree_while_it_is_known(store, work):
    tree, path = LocalTree(work), work / ".handrail/manifest.json"
    before, folder = store.snapshot(tree), os.stat(work)
    tree.shown = knowing(b"one", b"two")
    for content in (b"one", b"two"):
        assert mount_point.write(work, content, OWNER, tree.shown)
        assert (path.read_bytes(), os.stat(work).st_mtime_ns) == (content, folder.st_mtime_ns)
        assert store.snapshot(tree, thorough=True).tree == before.tree
        assert store.compare(before.tree, tree, full=True).differ == []
        assert b".handrail" not in listed(tree)
    tree.shown = knowing(b"one")
    changes = store.diff(before.tree, store.snapshot(tree).tree)
    assert [change.path for change in changes] == [b".handrail", b".handrail/manifest.json"]
    assert listed(tree, b".handrail") == [b"manifest.json"]


def test_changed_content_is_somebodys_own_and_is_not_replaced(store, work):
    tree, path = LocalTree(work), work / ".handrail/manifest.json"
    tree.shown = knowing(b"one", b"two")
    assert mount_point.write(work, b"one", OWNER, tree.shown)
    path.write_bytes(b"one, changed")
    assert not mount_point.write(work, b"two", OWNER, tree.shown)
    assert path.read_bytes() == b"one, changed"
    assert names(store, store.snapshot(tree).tree, b".handrail") == [b"manifest.json"]
    mount_point.take_away(work, tree.shown)
    assert path.read_bytes() == b"one, changed"
    path.write_bytes(b"one")
    os.link(path, work / "other name")
    assert not mount_point.write(work, b"two", OWNER, tree.shown)


def test_a_mount_point_is_made_and_removed_among_other_files(store, work):
    tree, notes = LocalTree(work), work / ".handrail/notes.md"
    notes.parent.mkdir()
    notes.write_text("mine\n")
    taken = store.snapshot(tree).tree
    tree.shown = knowing(b"one")
    (work / ".handrail/manifest.json.new").write_text("half")  # of one that was killed
    assert mount_point.write(work, b"one", OWNER, tree.shown)
    assert listed(tree, b".handrail") == [b"notes.md"]
    mount_point.take_away(work, tree.shown)
    assert os.listdir(notes.parent) == ["notes.md"]
    assert [path for path in store.compare(taken, tree, full=True).differ if path != b".handrail"] == []


def test_the_folder_of_a_mount_point_is_removed_with_it(store, work):
    tree = LocalTree(work)
    before = store.snapshot(tree).tree
    tree.shown = knowing(b"one")
    mount_point.write(work, b"one", OWNER, tree.shown)
    mount_point.take_away(work, tree.shown)
    assert not (work / ".handrail").exists()
    assert store.compare(before, tree, full=True).differ == []
    with pytest.raises(FileNotFoundError):
        mount_point.take_away(work, tree.shown)


def test_nothing_is_put_through_a_link(work, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (work / ".handrail").symlink_to(tmp_path / "elsewhere")
    assert not mount_point.write(work, b"one", OWNER, knowing(b"one"))
    assert os.listdir(tmp_path / "elsewhere") == []


def test_a_restore_leaves_content_that_was_put_there(store, work, journal):
    tree, path = LocalTree(work), work / ".handrail/manifest.json"
    taken = store.snapshot(tree).tree
    tree.shown = knowing(b"one")
    mount_point.write(work, b"one", OWNER, tree.shown)
    (work / "README.md").write_text("other\n")
    store.restore(taken, tree, journal=journal)
    assert (path.read_bytes(), store.compare(taken, tree, full=True).differ) == (b"one", [])

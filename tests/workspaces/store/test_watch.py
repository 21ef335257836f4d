"""A watched tree is looked at where it may have changed; a walk proves it, and ends a watch that missed some."""

import ctypes
import errno
import json
import mmap
import os
import re
import struct
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from tests.workspaces.store.silent_writers import mount, unmount
from tests.workspaces.store.users import as_user
from workspaces.store import LocalTree, Store, StoreError
from workspaces.store.watch import Watched, kernels, opened, writers
from workspaces.store.watch.marks import Marks
from workspaces.store.watch.scan import WatchedScan

MS_BIND = 4096


@pytest.fixture
def store(tmp_path):
    return Store.create(tmp_path / "store")


@pytest.fixture
def watched(store, tree, require, settle, way):
    """The watch of the tree `work`, after its first snapshot."""
    found = Watched()
    tree.watched = found
    settle()
    store.snapshot(tree)
    if found.how == "off":
        require("fanotify", found.why)
    if found.how == "inotify":  # it does not say who opened a file: those that the first snapshot read are asked now
        store.snapshot(tree)
    yield found
    found.close()


@pytest.fixture
def tree(work):
    return LocalTree(work)


def walked(store, work):
    return store.snapshot(LocalTree(work, cache=work.parent / "another"), thorough=True)


def elsewhere(*lines):
    """Start another program; each of its lines of output is awaited by `next`."""
    command = [sys.executable, "-u", "-c", "\n".join(lines)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)


def test_an_unchanged_tree_is_not_walked(store, tree, work, watched):
    taken = store.snapshot(tree)
    assert taken.looked_at.walked == 0
    assert taken.looked_at.watched == len(os.listdir(work))  # the top folder is always looked at
    assert taken.tree == walked(store, work).tree


def test_what_was_made_before_the_first_snapshot_is_not_due_at_the_second(store, work, watched, settle):
    """The queue of a file system that is watched for another tree still holds the events of this one's making."""
    another = work.parent / "another tree"
    (another / "folder").mkdir(parents=True)
    (another / "folder" / "file").write_text("1")
    second = LocalTree(another)
    second.watched = Watched()
    settle()
    try:
        store.snapshot(second)
        assert store.snapshot(second).looked_at == (0, 1)
    finally:
        second.watched.close()


def test_a_changed_file_and_its_parents_are_looked_at(store, tree, work, watched):
    (work / "src" / "deep" / "data.bin").write_bytes(b"new")
    taken = store.snapshot(tree)
    assert taken.looked_at == (0, len(os.listdir(work)) + len(os.listdir(work / "src" / "deep")))
    assert store.read(taken.tree, b"src/deep/data.bin") == b"new"
    assert store.snapshot(tree).looked_at.watched == len(os.listdir(work))


def test_a_restore_looks_where_something_may_have_changed(store, tree, work, watched, monkeypatch):
    taken, looked_at = store.snapshot(tree), []
    forget = WatchedScan.forget
    monkeypatch.setattr(WatchedScan, "forget", lambda scan: (looked_at.append(scan.looked_at()), forget(scan)))
    (work / "src" / "deep" / "data.bin").write_bytes(b"new")
    os.rename(work / "src" / "deep", work / "moved")
    done = store.restore(taken.tree, tree, journal=work.parent / "journal")
    assert done.created + done.changed + done.removed > 0
    assert walked(store, work).tree == taken.tree
    assert looked_at[0].walked < taken.entries / 2
    assert store.snapshot(tree).tree == taken.tree
    store.restore(taken.tree, tree, journal=work.parent / "journal")
    assert looked_at[1].walked == 0


def test_a_restore_of_what_has_lost_its_watch_walks(store, tree, work, watched, monkeypatch):
    taken = store.snapshot(tree)
    watched.lose("a test says so")
    monkeypatch.setattr(watched, "scan", None)  # it is not asked
    (work / "src" / "deep" / "data.bin").write_bytes(b"new")
    store.restore(taken.tree, tree, journal=work.parent / "journal")
    assert walked(store, work).tree == taken.tree


def test_a_new_folder_is_walked(store, tree, work, watched):
    (work / "src" / "new" / "below").mkdir(parents=True)
    (work / "src" / "new" / "below" / "file").write_text("1")
    taken = store.snapshot(tree)
    assert taken.looked_at.walked == 2
    assert store.read(taken.tree, b"src/new/below/file") == b"1"


def test_a_mapping_is_looked_at_as_long_as_it_lasts(store, tree, work, watched, settle):
    path = work / "src" / "deep" / "data.bin"
    lines = (
        "import mmap, sys",
        f"with open({os.fspath(path)!r}, 'r+b') as file: mapping = mmap.mmap(file.fileno(), 0)",
        "for line in sys.stdin: mapping[7] = int(line); print('done')",
    )
    with elsewhere(*lines) as writer:
        for number in (65, 66, 67, 68):
            writer.stdin.write(f"{number}\n")
            writer.stdout.readline()
            taken = store.snapshot(tree)
            assert store.read(taken.tree, b"src/deep/data.bin", 7, 1) == bytes([number])
            assert len(watched.writers) == 1
            settle()
        writer.stdin.close()
    assert store.snapshot(tree).tree == taken.tree
    assert watched.writers == {}


def test_a_mapping_from_before_the_watch_is_found(store, tree, work, settle, require, way):
    with open(work / "README.md", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        settle()
        tree.watched = Watched()
        store.snapshot(tree)
        if tree.watched.how == "off":
            require("fanotify", tree.watched.why)
        for number in (65, 66):
            mapping[0] = number
            assert store.read(store.snapshot(tree).tree, b"README.md", 0, 1) == bytes([number])
    tree.watched.close()


def test_a_mapped_file_that_is_moved_in_is_looked_at(store, tree, work, watched, settle):
    outside = work.parent / "mapped"
    outside.write_bytes(bytes(5000))
    with open(outside, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        mapping[0] = 1
        os.rename(outside, work / "src" / "mapped")
        settle()
        assert store.read(store.snapshot(tree).tree, b"src/mapped", 0, 1) == b"\1"
        mapping[0] = 2
        assert store.read(store.snapshot(tree).tree, b"src/mapped", 0, 1) == b"\2"


def test_asynchronous_writes_are_seen_before_the_file_is_closed(store, tree, work, watched):
    path = work / "src" / "main.py"
    lines = (
        "import sys",
        f"sys.path.insert(0, {os.getcwd()!r})",
        "from tests.workspaces.store.silent_writers import Aio",
        f"aio, file = Aio(), open({os.fspath(path)!r}, 'r+b', buffering=0)",
        "for line in sys.stdin: aio.write(file.fileno(), line[0].encode(), 0); print('done')",
    )
    with elsewhere(*lines) as writer:
        for letter in "xyz":
            writer.stdin.write(f"{letter}\n")
            writer.stdout.readline()
            assert store.read(store.snapshot(tree).tree, b"src/main.py", 0, 1) == letter.encode()
        writer.stdin.close()


def test_a_name_outside_of_the_tree_is_a_name_of_the_file(store, tree, work, watched):
    os.link(work / "README.md", work.parent / "outside")
    store.snapshot(tree)
    (work.parent / "outside").write_text("by another name")
    assert store.read(store.snapshot(tree).tree, b"README.md") == b"by another name"


def test_folders_that_change_places_are_walked(store, tree, work, watched):
    os.rename(work / "src", work / "aside")
    os.rename(work / "empty", work / "src")
    (work / "src" / "main.py").write_text("another")
    taken = store.snapshot(tree)
    assert taken.tree == walked(store, work).tree
    assert store.read(taken.tree, b"aside/main.py") == b"print('hello')\n"


def test_what_is_not_kept_stays_due(store, tree, work, watched):
    (work / "src" / "main.py").write_text("changed")

    def refuse():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        store.snapshot(tree, before_commit=refuse)
    assert store.read(store.snapshot(tree).tree, b"src/main.py") == b"changed"


def test_a_collection_of_the_last_snapshot_makes_the_next_one_walk(store, tree, work, watched):
    store.release(store.snapshot(tree, hold=0).tree)
    store.gc([], since=2e9)
    taken = store.snapshot(tree, hold=0)
    assert taken.looked_at.walked > 5
    assert store.verify(full=True).problems == []


def test_every_nth_snapshot_walks(store, tree, watched):
    watched.proof_every = 3
    store.snapshot(tree, prove=True)
    walks = [store.snapshot(tree).looked_at.walked > 0 for _ in range(6)]
    assert walks == [False, False, True, False, False, True]


def test_a_proof_that_finds_a_missed_change_switches_the_watch_off(store, tree, work, watched, monkeypatch):
    monkeypatch.setattr(watched, "note_changes", lambda inodes: None)
    monkeypatch.setattr(watched, "note_opens", lambda opened: None)
    (work / "src" / "deep" / "data.bin").write_bytes(b"nobody hears of this")
    assert store.snapshot(tree).tree != walked(store, work).tree
    taken = store.snapshot(tree, prove=True)
    assert taken.tree == walked(store, work).tree
    assert (watched.how, watched.alarms) == ("off", 1)
    assert "src/deep" in watched.why
    assert store.snapshot(tree).looked_at.watched == 0


def test_a_proof_of_an_honest_watch_is_no_alarm(store, tree, work, watched, settle):
    (work / "src" / "main.py").write_text("changed")
    store.snapshot(tree)
    settle()
    (work / "README.md").write_text("changed too")
    store.snapshot(tree, thorough=True)
    assert (watched.how, watched.alarms) == (watched.kernel.how, 0)


def test_a_full_queue_makes_the_next_snapshot_walk(store, tree, work, watched, monkeypatch):
    (work / "src" / "main.py").write_text("lost")
    monkeypatch.setattr(watched, "note_changes", lambda inodes: None)
    monkeypatch.setattr(watched, "note_opens", lambda opened: None)
    watched.kernel.collect_changes()
    overflow = struct.pack("<IBBHQii", 24, 3, 0, 24, 0x4000, -1, 0)  # as fanotify(7) describes it
    if watched.how == "inotify":
        overflow = struct.pack("=iIII", -1, 0x4000, 0, 0)
    watched.kernel._pass_on(overflow)
    monkeypatch.undo()
    taken = store.snapshot(tree)
    assert taken.looked_at.walked > 5
    assert store.read(taken.tree, b"src/main.py") == b"lost"


def test_a_full_queue_during_a_proof_is_no_alarm(store, tree, work, watched, monkeypatch):
    settle = watched.settle

    def settle_late(*found):
        watched.lose("the queue of events overflowed")
        return settle(*found)

    monkeypatch.setattr(watched, "note_changes", lambda inodes: None)
    monkeypatch.setattr(watched, "settle", settle_late)
    (work / "src" / "main.py").write_text("of a lost event")
    proven = store.snapshot(tree, thorough=True)
    assert store.read(proven.tree, b"src/main.py") == b"of a lost event"
    assert (watched.how, watched.alarms) == (watched.kernel.how, 0)
    monkeypatch.undo()
    assert store.snapshot(tree).looked_at.walked > 5


def test_it_can_be_switched_off(store, tree):
    tree.watched = Watched(off="HANDRAIL_WATCH=off")
    assert [store.snapshot(tree).looked_at.watched for _ in range(2)] == [0, 0]
    assert (tree.watched.how, tree.watched.why) == ("off", "HANDRAIL_WATCH=off")


def test_hard_links_and_skipped_entries_elsewhere_are_still_known(store, tree, work, watched):
    os.link(work / "README.md", work / "src" / "deep" / "second")
    if os.geteuid() == 0:
        os.mknod(work / "empty" / "device", 0o600 | 0o020000, os.makedev(1, 3))
    else:
        (work / "empty" / "device").touch(0)
    store.snapshot(tree)
    (work / "src" / "main.py").write_text("changed")
    taken, other = store.snapshot(tree), walked(store, work)
    assert (taken.tree, taken.entries, taken.bytes) == (other.tree, other.entries, other.bytes)
    assert [one.path for one in taken.skipped] == [b"empty/device"]
    os.unlink(work / "README.md")
    assert store.snapshot(tree).tree == walked(store, work).tree


def test_snapshots_of_a_command_use_the_watch(tmp_path, work):
    engine = [sys.executable, "-m", "workspaces.store"]
    subprocess.run([*engine, "init", tmp_path / "store"], check=True, capture_output=True)
    one = " ".join(map(str, [*engine, "snapshot", tmp_path / "store", work]))
    script = f"{one} && echo changed > {work}/src/main.py && {one} && exit 7"
    done = subprocess.run([*engine, "watch", work, "--", "sh", "-c", script], capture_output=True, text=True)
    first, second = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 7
    assert first["looked_at"]["watched"] == 0
    assert second["looked_at"] == {"walked": 0, "watched": len(os.listdir(work)) + 2}


# Files that somebody only reads


@pytest.fixture
def many(work):
    """Thirty files in a folder of the tree."""
    folder = work / "many"
    folder.mkdir()
    for number in range(30):
        (folder / f"f{number}").write_bytes(bytes(5000))
    return folder


@pytest.fixture
def mapper(many):
    """`mapper.store(value)`: another program stores a byte through mappings of two files, and has read the others."""
    lines = (
        "import mmap, pathlib, sys",
        f"many = pathlib.Path({os.fspath(many)!r})",
        "sys.stdin.readline()",
        "opened = [open(many / name, 'r+b') for name in ('f7', 'f8')]",
        "mappings = [mmap.mmap(file.fileno(), 0) for file in opened]",
        "[file.close() for file in opened]",
        "[path.read_bytes() for path in many.iterdir() if path.name not in ('f7', 'f8')]",
        "print('open')",
        "for line in sys.stdin:",
        "    for mapping in mappings: mapping[9] = int(line)",
        "    print('done')",
    )
    with elsewhere(*lines) as program:

        def store(value=""):
            program.stdin.write(f"{value}\n")
            program.stdout.readline()

        program.store = store
        yield program
        program.stdin.close()


def until(is_so):
    for _ in range(2_000):
        if is_so():
            return
        time.sleep(0.01)
    raise AssertionError("it did not become so")


def test_many_files_are_asked_before_the_snapshot(store, tree, work, many, mapper, watched, monkeypatch):
    monkeypatch.setattr(opened, "FEW", 0)
    monkeypatch.setattr(opened, "AT_ONCE", 7)
    mapper.store()
    until(lambda: len(watched.writers) == 2 and not watched.ask_ahead(watched.kernel))
    for value in (65, 66, 67):
        mapper.store(value)
        taken = store.snapshot(tree)
        assert store.read(taken.tree, b"many/f7", 9, 1) == store.read(taken.tree, b"many/f8", 9, 1) == bytes([value])
        assert taken.looked_at == (0, len(os.listdir(work)) + len(os.listdir(many)))
        assert taken.tree == walked(store, work).tree


def test_two_watchers_of_a_tree_do_not_keep_each_other_asking(store, tree, work, many, mapper, watched, monkeypatch):
    monkeypatch.setattr(opened, "FEW", 0)
    mapper.store()
    until(lambda: len(watched.writers) == 2 and not watched.ask_ahead(watched.kernel))
    subprocess.run(["grep", "-r", "x", many], check=False, capture_output=True)  # as another watcher opens all of them
    watched.kernel.collect_opens()
    assert not watched.ask_ahead(watched.kernel)
    mapper.store(65)
    assert store.read(store.snapshot(tree).tree, b"many/f7", 9, 1) == bytes([65])
    assert store.snapshot(tree).looked_at == (0, len(os.listdir(work)) + len(os.listdir(many)))


def test_files_that_are_not_asked_yet_are_looked_at(store, tree, work, many, mapper, watched, monkeypatch, settle):
    monkeypatch.setattr(opened, "MOST", 5)
    mapper.store()
    for value in (65, 66, 67):
        mapper.store(value)
        taken = store.snapshot(tree)
        assert store.read(taken.tree, b"many/f7", 9, 1) == bytes([value])
        assert taken.looked_at == (0, len(os.listdir(work)) + len(os.listdir(many)))
        settle()
    assert len(watched.writers) == 2  # the scan has asked the two that changed, and nobody the others
    mapper.store(68)
    assert store.snapshot(tree, prove=True).tree == walked(store, work).tree
    assert (watched.how, watched.alarms) == (watched.kernel.how, 0)
    monkeypatch.undo()
    mapper.store(69)
    assert store.read(store.snapshot(tree).tree, b"many/f8", 9, 1) == bytes([69])
    assert len(watched.writers) == 2


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOMEM, errno.EPERM])
def test_a_file_that_cannot_be_asked_is_not_taken_for_one_that_is_gone(work, monkeypatch, code):
    def refuse(*_):
        ctypes.set_errno(said.pop(0))
        return -1

    said = [errno.ESTALE, code]
    monkeypatch.setattr(writers, "_libc", SimpleNamespace(open_by_handle_at=refuse))
    assert writers.open_by_handle(0, 1, b"handle") is None
    with pytest.raises(OSError, match=os.strerror(code)):
        writers.open_by_handle(0, 1, b"handle")


def test_the_folder_of_a_new_disk_does_not_mislead_about_the_form_of_handles(work, monkeypatch):
    inode = os.stat(work).st_ino  # its generation is 0 there
    monkeypatch.setattr(writers, "_handle", lambda fd: (1, struct.pack("<II", inode, 0)))
    root = os.open(work, os.O_RDONLY)
    try:
        assert writers.Handle(root).form == "<I"
    finally:
        os.close(root)


def test_what_was_only_read_is_not_looked_at_again(store, tree, work, many, mapper, watched):
    mapper.store()
    mapper.store(65)
    mapper.stdin.close()
    mapper.wait()
    store.snapshot(tree)
    subprocess.run(["grep", "-r", "x", many], check=False, capture_output=True)
    assert store.snapshot(tree).looked_at == (0, len(os.listdir(work)))


# Without rights: each inode has a mark of its own


@pytest.fixture
def marked(store, tree, require, settle, monkeypatch):
    """The watch of the tree `work` by marks, after its first snapshot."""
    monkeypatch.setattr(kernels, "WAYS", (Marks,))
    monkeypatch.setattr(kernels, "_shared", {})
    tree.watched = Watched()
    settle()
    store.snapshot(tree)
    if tree.watched.how == "off":
        require("fanotify", tree.watched.why)
    yield tree.watched
    tree.watched.close()


def test_it_says_that_each_file_is_watched(marked):
    assert (marked.how, marked.why) == ("fanotify", "its files and folders are watched one by one")


def test_a_name_that_was_outside_and_is_gone_still_leads_to_the_file(store, tree, work, marked, settle):
    outside = work.parent / "outside"
    outside.write_bytes(b"first")
    with open(outside, "rb") as file:
        os.link(outside, work / "src" / "inside")
        outside.unlink()
        settle()
        store.snapshot(tree)
        with open(f"/proc/self/fd/{file.fileno()}", "r+b", buffering=0) as again:
            again.write(b"other")
    assert store.read(store.snapshot(tree).tree, b"src/inside") == b"other"


def test_a_writer_of_a_file_that_was_renamed_is_looked_at(store, tree, work, marked, settle):
    path, moved = work / "src" / "deep" / "data.bin", work / "empty" / "data.bin"
    lines = (
        "import mmap, os, sys",
        f"with open({os.fspath(path)!r}, 'r+b') as file: mapping = mmap.mmap(file.fileno(), 0)",
        f"os.rename({os.fspath(path)!r}, {os.fspath(moved)!r})",
        "for line in sys.stdin: mapping[7] = int(line); print('done')",
    )
    with elsewhere(*lines) as writer:
        for number in (65, 66, 67):
            writer.stdin.write(f"{number}\n")
            writer.stdout.readline()
            assert store.read(store.snapshot(tree).tree, b"empty/data.bin", 7, 1) == bytes([number])
            settle()
        writer.stdin.close()


def test_a_folder_with_the_inode_of_a_removed_one_is_looked_at(store, tree, work, marked, settle):
    (work / "src" / "deep" / "data.bin").unlink()
    before = store.snapshot(tree)
    assert before.tree == walked(store, work).tree
    inode, spare = os.stat(work / "src" / "deep").st_ino, 0
    (work / "src" / "deep").rmdir()
    while not (work / "src" / "deep").exists():
        fresh = work.parent / f"spare{(spare := spare + 1)}"
        fresh.mkdir()
        if os.stat(fresh).st_ino == inode or spare > 200:
            (fresh / "file").write_text("of another folder")
            settle()
            fresh.rename(work / "src" / "deep")
    assert store.read(store.snapshot(tree).tree, b"src/deep/file") == b"of another folder"
    (work / "src" / "deep" / "file").write_text("changed")
    assert store.read(store.snapshot(tree).tree, b"src/deep/file") == b"changed"


def test_an_entry_that_cannot_be_marked_is_looked_at_each_time(store, tree, work, marked, monkeypatch):
    closed = os.stat(work / "src" / "deep" / "data.bin").st_ino
    mark = marked.kernel.mark

    def refuse(fd, **options):
        if os.fstat(fd).st_ino == closed:
            raise PermissionError(13, "Permission denied")
        mark(fd, **options)

    monkeypatch.setattr(marked.kernel, "mark", refuse)
    marked.lose("the test wants a walk")
    store.snapshot(tree)
    assert marked.unmarked == {"src/deep"}
    for _ in range(2):
        assert store.snapshot(tree).looked_at == (0, len(os.listdir(work)) + 1)
    monkeypatch.undo()
    store.snapshot(tree)
    assert marked.unmarked == set()


def test_a_tree_with_more_entries_than_may_be_marked_is_walked(store, tree, work, marked, monkeypatch):
    def refuse(fd, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(marked.kernel, "mark", refuse)
    (work / "src" / "new").write_text("one too many")
    assert store.read(store.snapshot(tree).tree, b"src/new") == b"one too many"
    assert marked.how == "off"
    assert "fs.fanotify.max_user_marks" in marked.why
    (work / "src" / "new").write_text("changed")
    taken = store.snapshot(tree)
    assert taken.looked_at.watched == 0
    assert store.read(taken.tree, b"src/new") == b"changed"
    assert "fs.fanotify.max_user_marks" in marked.why


@pytest.mark.timeout(900)
def test_all_of_this_holds_for_an_ordinary_user(tmp_path, ordinary_user):
    tmp_path.chmod(0o777)
    outcome = as_user(
        ordinary_user, tmp_path, __file__, "-k", "not ordinary_user and not file-system", "-o", "timeout=0"
    )
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    assert int(re.search(r"(\d+) passed", outcome.stdout).group(1)) > 20, outcome.stdout


def test_another_folder_mounted_in_the_place_of_one_is_looked_at(store, tree, work, watched, require):
    one, another, place = work.parent / "one", work.parent / "another-one", work / "src" / "deep"
    for folder in (one, another):
        folder.mkdir()
        (folder / "name").write_text(folder.name)
    try:
        mount(os.fspath(one), os.fspath(place), "", MS_BIND, "")
    except PermissionError as error:
        require("mounts", str(error))
    try:
        taken = store.snapshot(tree)
        assert store.read(taken.tree, b"src/deep/name") == b"one"
        unmount(os.fspath(place))
        mount(os.fspath(another), os.fspath(place), "", MS_BIND, "")
        taken = store.snapshot(tree)
        assert (taken.looked_at.walked, taken.tree) == (1, walked(store, work).tree)
        assert store.read(taken.tree, b"src/deep/name") == b"another-one"
    finally:
        unmount(os.fspath(place))


def test_a_restore_that_cannot_begin_leaves_the_watch_as_it_is(store, tree, watched, tmp_path):
    with pytest.raises(StoreError):
        store.restore("00" * 32, tree, journal=tmp_path / "journal")
    assert store.snapshot(tree).looked_at.walked == 0


def test_a_snapshot_that_fails_before_it_looks_says_why(store, tree, watched):
    def still_in(catalog):
        raise StoreError("the index is damaged")

    tree.made = SimpleNamespace(still_in=still_in)
    with pytest.raises(StoreError, match="the index is damaged"):
        store.snapshot(tree)
    tree.made = None
    assert store.snapshot(tree).looked_at.walked == 0

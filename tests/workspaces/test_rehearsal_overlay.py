"""What programs do to an overlay of a snapshot is, to the byte, what they would have done to a copy of it."""

import os
import random
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import CHECKOUT
from tests.support.mounts import NO_FUSE
from tests.workspaces.store.compare_trees import differing
from workspaces.runner import rehearsal_overlay
from workspaces.store import LocalTree, Store

pytestmark = [
    pytest.mark.skipif(NO_FUSE != "", reason=NO_FUSE),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts overlays"),
]
ROUNDS = int(os.environ.get("HANDRAIL_TEST_ROUNDS", "1"))
STEPS = 250


@pytest.fixture
def store(tmp_path):
    return Store.create(tmp_path / "store")


@pytest.fixture
def laid(tmp_path, store):
    """`laid(tree id)`: the overlay's merged folder, and a copy of the tree as a rehearsal made it before."""
    scratch = tmp_path / "scratch"

    def lay(tree):
        assert rehearsal_overlay.lay(store, tree, scratch, (0, 0), [])
        copy = tmp_path / "copy"
        copy.mkdir()
        store.restore(tree, LocalTree(copy), journal=tmp_path / "journal")
        return scratch / "tree", copy

    yield lay
    rehearsal_overlay.lift(scratch)
    assert not os.path.ismount(scratch / "tree")
    assert not os.path.ismount(scratch / "lower")


def grow(root, chance):
    """Fill a folder with all kinds of entries."""
    folders = [root]
    for number in range(12):
        at = chance.choice(folders) / f"d{number}"
        at.mkdir()
        folders.append(at)
    for number in range(60):
        path = chance.choice(folders) / f"f{number}"
        path.write_bytes(chance.randbytes(chance.choice((0, 10, 5000, 2_500_000 if number % 20 == 0 else 100))))
        path.chmod(chance.choice((0o644, 0o755, 0o400)))
    for number in range(6):
        (chance.choice(folders) / f"l{number}").symlink_to(chance.choice(("f1", "../d1", "/nowhere")))
    os.mkfifo(root / "fifo")
    os.setxattr(folders[3], "user.of a folder", b"x")
    os.setxattr(next(root.rglob("f1")), "user.note", b"\0y")


def _without_waiting(path, flags):
    return os.open(path, flags | os.O_NONBLOCK, 0o666)  # a FIFO may have got there


class Hand:
    """Does the same random steps to several roots; each step sets the times of what it touched, so that they agree."""

    def __init__(self, seed, roots):
        self.chance, self.roots, self.clock = random.Random(seed), roots, 10**18

    def listed(self, wanted):
        """Return the relative paths of what is there, by kind, in a fixed order."""
        found, top = [], self.roots[0]
        for at, folders, files in os.walk(top):
            for name in (*folders, *files):
                path = os.path.join(at, name)
                if wanted(os.lstat(path).st_mode):
                    found.append(os.path.relpath(path, top))
        return sorted(found)

    def step(self):
        files, folders = self.listed(stat.S_ISREG), [".", *self.listed(stat.S_ISDIR)]
        others = self.listed(lambda mode: not stat.S_ISDIR(mode))
        names = [word for word in dir(self) if word.startswith("do_")]
        action = getattr(self, self.chance.choice(names))
        new = os.path.join(self.chance.choice(folders), f"n{self.chance.randrange(40)}")
        # Where everything was removed there is no file to pick: the step then fails alike in all roots, or makes one.
        file, other = self.chance.choice(files or [new]), self.chance.choice(others or [new])
        picked = (file, self.chance.choice(folders), other, new)
        data, self.clock = self.chance.randbytes(self.chance.choice((3, 4000))), self.clock + 1_000_000_007
        outcomes = [self._once(action, root, picked, data) for root in self.roots]
        assert len(set(outcomes)) == 1, (action.__name__, picked, outcomes)

    def _once(self, action, root, picked, data):
        paths = [os.path.join(root, each) for each in picked]
        try:
            action(*paths, data)
            outcome = "done"
        except OSError as error:
            outcome = error.errno
        except shutil.Error as error:
            outcome = type(error).__name__
        made_again = os.path.join(paths[1], "f1")
        for path in (*paths, made_again):
            for each in (path, os.path.dirname(path)):
                if os.path.lexists(each) and (outcome == "done" or each != path):
                    os.utime(each, ns=(self.clock, self.clock), follow_symlinks=False)
        return outcome

    def do_write(self, file, folder, other, new, data):
        with open(new, "wb", opener=_without_waiting) as out:
            out.write(data)

    def do_append(self, file, folder, other, new, data):
        with open(file, "ab") as out:
            out.write(data)

    def do_overwrite_in_the_middle(self, file, folder, other, new, data):
        with open(file, "r+b") as out:
            out.seek(2)
            out.write(data)

    def do_truncate(self, file, folder, other, new, data):
        os.truncate(
            file, min(1, os.path.getsize(file))
        )  # never longer: that a byte is a hole shows in one of them only

    def do_make_a_hole(self, file, folder, other, new, data):
        with open(new, "wb", opener=_without_waiting) as out:
            out.seek(3_000_000)
            out.write(data)

    def do_unlink(self, file, folder, other, new, data):
        os.unlink(other)

    def do_remove_a_folder(self, file, folder, other, new, data):
        if not folder.endswith("."):
            shutil.rmtree(folder)

    def do_remove_a_folder_and_make_it_again(self, file, folder, other, new, data):
        if not folder.endswith("."):
            shutil.rmtree(folder)
            os.mkdir(folder)
            with open(os.path.join(folder, "f1"), "wb") as out:
                out.write(data)

    def do_make_a_folder(self, file, folder, other, new, data):
        os.mkdir(new)

    def do_rename_a_file(self, file, folder, other, new, data):
        os.rename(other, new)

    def do_rename_over(self, file, folder, other, new, data):
        os.replace(other, file)

    def do_rename_a_folder(self, file, folder, other, new, data):
        os.rename(folder, new)

    def do_link(self, file, folder, other, new, data):
        os.link(file, new)

    def do_symlink(self, file, folder, other, new, data):
        os.symlink("some/where", new)

    def do_chmod(self, file, folder, other, new, data):
        os.chmod(file, 0o711)
        os.chmod(folder, 0o750)

    def do_chown(self, file, folder, other, new, data):
        os.chown(other, 77, 78, follow_symlinks=False)

    def do_set_an_attribute(self, file, folder, other, new, data):
        os.setxattr(file, "user.new", data[:3])
        os.setxattr(folder, "user.new", data[:3])

    def do_take_an_attribute(self, file, folder, other, new, data):
        for path in (file, folder):
            for name in os.listxattr(path):
                os.removexattr(path, name)

    def do_make_a_fifo(self, file, folder, other, new, data):
        os.mkfifo(new)

    def do_touch(self, file, folder, other, new, data):
        os.utime(file)


@pytest.mark.parametrize("number", range(ROUNDS))
def test_random_steps_leave_the_same_tree(tmp_path, store, laid, number):
    seed = int(os.environ.get("HANDRAIL_TEST_SEED") or random.SystemRandom().randrange(10**6)) + number
    (tmp_path / "work").mkdir()
    grow(tmp_path / "work", random.Random(seed))
    merged, copy = laid(store.snapshot(LocalTree(tmp_path / "work")).tree)
    assert differing(merged, copy) == ([], set())
    hand = Hand(seed, (copy, merged))
    for _ in range(STEPS):
        hand.step()
    assert differing(merged, copy) == ([], set()), f"seed {seed}"
    expected = store.snapshot(LocalTree(copy), thorough=True).tree
    quick = rehearsal_overlay.tree(merged.parent)
    for tree in (LocalTree(merged), quick):
        scanned = store.snapshot(tree, thorough=True)
        assert (scanned.tree, scanned.skipped) == (expected, []), f"seed {seed}"


def test_files_that_nothing_changed_are_not_read_again(tmp_path, store, laid):
    (tmp_path / "work").mkdir()
    grow(tmp_path / "work", random.Random(2))
    for path in (tmp_path / "work").rglob("*"):
        os.utime(path, ns=(10**18, 10**18), follow_symlinks=False)
    tree = store.snapshot(LocalTree(tmp_path / "work")).tree
    merged, _ = laid(tree)
    changed = next(path for path in sorted(merged.rglob("f*")) if path.is_file() and path.stat().st_size)
    before = changed.stat()
    changed.write_bytes(b"y" * before.st_size)
    os.utime(changed, ns=(before.st_mtime_ns, before.st_mtime_ns))
    seen = []
    scanned = store.snapshot(
        rehearsal_overlay.tree(merged.parent), thorough=True, inspect=lambda path, data: seen.append((path, data))
    )
    assert [path for path, data in seen if data == b"y" * before.st_size] == [os.fsencode(changed.relative_to(merged))]
    assert [change.path for change in store.diff(tree, scanned.tree)] == [os.fsencode(changed.relative_to(merged))]
    assert not any(len(data) > 5000 for _, data in seen)


LAY = """
import os, signal, sys
from pathlib import Path
from workspaces.runner import rehearsal_overlay
from workspaces.store import Store

store, tree, scratch, at = sys.argv[1:]
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
rehearsal_overlay.lay(Store.open(store), tree, Path(scratch), (0, 0), [], (), die if at == "mounted" else lambda: None)
Path(scratch, "tree", "file").write_text("changed")
die()
"""


@pytest.mark.parametrize("at", ["mounted", "laid"])
def test_what_a_killed_runner_leaves_can_be_lifted(tmp_path, store, at):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "file").write_text("x")
    tree, scratch = store.snapshot(LocalTree(tmp_path / "work")).tree, tmp_path / "scratch"
    command = [sys.executable, "-c", LAY, store.path, tree, scratch, at]
    done = subprocess.run([os.fspath(word) for word in command], cwd=CHECKOUT, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    rehearsal_overlay.lift(scratch)
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()
    shutil.rmtree(scratch)
    assert store.snapshot(LocalTree(tmp_path / "work"), thorough=True).tree == tree


def test_what_it_cannot_show_is_copied(tmp_path, store):
    work = tmp_path / "work"
    for kind in ("link", "hole"):
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        (work / "file").write_bytes(b"x")
        if kind == "link":
            os.link(work / "file", work / "again")
        else:
            os.truncate(work / "file", 50_000_000)
        tree = store.snapshot(LocalTree(work)).tree
        assert not rehearsal_overlay.lay(store, tree, tmp_path / kind, (0, 0), [])
        assert not (tmp_path / kind).exists()


def test_the_snapshot_below_stays_as_it_was(tmp_path, store, laid):
    work = tmp_path / "work"
    work.mkdir()
    grow(work, random.Random(1))
    tree = store.snapshot(LocalTree(work)).tree
    merged, _ = laid(tree)
    subprocess.run(["find", merged, "-mindepth", "1", "-delete"], check=True)
    (merged / "new").write_text("new")
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(merged / "s"))
    assert os.listdir(merged.parent / "lower") != []
    assert store.snapshot(LocalTree(merged.parent / "lower"), thorough=True).tree == tree

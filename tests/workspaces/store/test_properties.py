"""Random trees of all kinds of entries, edited, stored and brought back, judged by the independent comparer."""

import os
import random
import shutil
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workspaces.store.compare_trees import describe
from workspaces.store import LocalTree, Store

MORE = int(os.environ.get("HANDRAIL_TEST_ROUNDS", "1"))
ROUNDS = 24 * MORE  # 42 make a thousand
pytestmark = pytest.mark.timeout(300 * MORE)
NAMES = [b"a", b"b", b"A", b"\xff", b"new\nline", b"n" * 255, b"d", b".git", b"x y"]
CONTENTS = [b"", b"x", b"hello\n" * 50, bytes(20_000), b"same size 1", b"same size 2"]
EDITS = [
    "write", "write", "rewrite same size", "append", "folder", "symlink", "link", "fifo", "remove", "rename", "mode",
    "time", "time back", "xattr", "sparse", "large", "swap",
]  # fmt: skip


class Editor:
    """Carries out one edit after another on a real folder, the way that agents do."""

    def __init__(self, root, seed):
        self.root, self.random = os.fsencode(root), random.Random(seed)

    def folders(self):
        return [folder for folder, _, _ in os.walk(self.root)]

    def entries(self):
        return [os.path.join(at, name) for at, folders, files in os.walk(self.root) for name in (*folders, *files)]

    def files(self):
        return [path for path in self.entries() if stat.S_ISREG(os.lstat(path).st_mode)]

    def fresh(self):
        return os.path.join(self.random.choice(self.folders()), self.random.choice(NAMES))

    def edit(self, kind):
        try:
            getattr(self, kind.replace(" ", "_"))()
        except (FileExistsError, IsADirectoryError, NotADirectoryError, IndexError, FileNotFoundError):
            pass  # not every edit fits every tree
        except OSError as error:
            if error.strerror not in ("Directory not empty", "Invalid argument", "No such device or address"):
                raise

    def _put(self, path, data, mode="wb"):
        if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
            raise FileExistsError(path)
        with open(path, mode) as file:
            file.write(data)

    def write(self):
        self._put(self.fresh(), self.random.choice(CONTENTS))

    def rewrite_same_size(self):
        path = self.random.choice(self.files())
        found = os.stat(path)
        self._put(path, self.random.randbytes(found.st_size), "r+b")
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))

    def append(self):
        self._put(self.random.choice(self.files()), b"more", "ab")

    def folder(self):
        os.mkdir(self.fresh())

    def symlink(self):
        os.symlink(self.random.choice([b"a", b"nowhere", b"/etc", b"..", b"\xff"]), self.fresh())

    def link(self):
        os.link(self.random.choice(self.files()), self.fresh(), follow_symlinks=False)

    def fifo(self):
        os.mkfifo(self.fresh())

    def remove(self):
        path = self.random.choice(self.entries())
        if stat.S_ISDIR(os.lstat(path).st_mode):
            shutil.rmtree(path)
        else:
            os.unlink(path)

    def rename(self):
        os.rename(self.random.choice(self.entries()), self.fresh())

    def mode(self):
        path = self.random.choice([path for path in self.entries() if not os.path.islink(path)])
        os.chmod(path, self.random.choice([0o600, 0o644, 0o755, 0o700, 0o777]))

    def time(self):
        path = self.random.choice(self.entries())
        os.utime(path, ns=(0, self.random.choice([0, 1, 10**18 + 1, -5])), follow_symlinks=False)

    def time_back(self):
        path = self.random.choice(self.files())
        found = os.stat(path)
        self._put(path, b"other", "wb")
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))

    def xattr(self):
        path = self.random.choice([path for path in self.entries() if os.path.isdir(path) or path in self.files()])
        os.setxattr(path, b"user.x", self.random.choice([b"", b"1", b"\xff"]))

    def sparse(self):
        with open(self.fresh(), "xb") as file:
            file.truncate(self.random.choice([100_000, 3_000_000]))
            file.seek(70_000)
            file.write(b"island")

    def large(self):
        path = self.fresh()
        self._put(path, self.random.randbytes(1_200_000 + self.random.randrange(1000)))

    def swap(self):
        one, two = self.random.choice(self.entries()), self.random.choice(self.entries())
        if one != two and not (two.startswith(one + b"/") or one.startswith(two + b"/")):
            aside = os.path.join(self.root, b"aside")
            os.rename(one, aside)
            os.rename(two, one)
            os.rename(aside, two)


edits = st.lists(st.sampled_from(EDITS), min_size=1, max_size=25)


def any_tree(rounds):
    options = settings(max_examples=rounds, deadline=None, suppress_health_check=list(HealthCheck))
    return lambda test: options(given(first=edits, second=edits, seed=st.integers(0, 2**32))(test))


@any_tree(ROUNDS)
def test_any_tree_comes_back_in_place_and_elsewhere(addresses, first, second, seed):
    comes_back_in_place_and_elsewhere(addresses, LocalTree, first, second, seed)


@any_tree(ROUNDS // 4)
@pytest.mark.parametrize("tree_of", ["watched", "guest"], indirect=True)
def test_any_tree_comes_back_where_it_is_watched_and_in_a_guest(addresses, tree_of, first, second, seed):
    comes_back_in_place_and_elsewhere(addresses, tree_of, first, second, seed)


def comes_back_in_place_and_elsewhere(addresses, tree_of, first, second, seed):
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        (home / "work").mkdir()
        (home / "copy").mkdir()
        store, work, journal = Store.create(addresses(home / "store")), tree_of(home / "work"), home / "journal"
        editor = Editor(home / "work", seed)
        for kind in first:
            editor.edit(kind)
        a, told_a = store.snapshot(work).tree, describe(home / "work")
        for kind in second:
            editor.edit(kind)
        b, told_b = store.snapshot(work).tree, describe(home / "work")
        assert (a == b) == (told_a == told_b)
        store.restore(a, work, journal=journal)
        assert describe(home / "work") == told_a
        store.restore(b, work, journal=journal)
        assert describe(home / "work") == told_b
        store.restore(a, tree_of(home / "copy"), journal=journal)
        assert describe(home / "copy") == told_a
        assert store.compare(a, tree_of(home / "copy"), full=True).differ == []
        assert bool(list(store.diff(a, b))) <= (a != b)
        assert store.verify(full=True).problems == []


def test_many_rounds_of_edit_snapshot_and_restore_lose_nothing(tmp_path, address):
    many_rounds(tmp_path, address, LocalTree, ROUNDS)


@pytest.mark.parametrize("tree_of", ["watched", "guest"], indirect=True)
def test_many_rounds_where_it_is_watched_and_in_a_guest_lose_nothing(tmp_path, address, tree_of):
    many_rounds(tmp_path, address, tree_of, ROUNDS // 3)


def many_rounds(tmp_path, address, tree_of, rounds):
    (tmp_path / "work").mkdir()
    store, work = Store.create(address), tree_of(tmp_path / "work")
    editor, chance = Editor(tmp_path / "work", 7), random.Random(7)
    kept = []
    for _ in range(rounds):
        for _ in range(6):
            editor.edit(chance.choice(EDITS))
        kept.append((store.snapshot(work).tree, describe(tmp_path / "work")))
        tree, told = chance.choice(kept)
        store.restore(tree, work, journal=tmp_path / "journal")
        assert describe(tmp_path / "work") == told
        if len(kept) > 20:
            kept = chance.sample(kept, 10)
            store.gc([tree for tree, _ in kept])
    assert store.verify(full=True).problems == []

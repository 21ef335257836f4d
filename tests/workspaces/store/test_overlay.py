"""Restores on overlayfs, which renames no folder of a lower layer: a folder in a container whose image has changed."""

import os
import shutil
import subprocess
from contextlib import suppress

import pytest

from tests.workspaces.store.compare_trees import describe
from workspaces.store import LocalTree, Store, StoreError, journal, moves

STEP = 5 if os.environ.get("HANDRAIL_TEST_ROUNDS", "1") == "1" else 1  # of the changes of a name, each STEPth is tried


@pytest.fixture
def overlay(tmp_path, require):
    """`overlay()`: the merged folder of a lower layer with `lib`, `src` and `single`, and an upper one with more."""
    if os.geteuid() != 0:
        require("overlay", "only root mounts an overlay")
    mounted = []

    def mount():
        if mounted:
            unmount()
        layers = tmp_path / "layers"
        shutil.rmtree(layers, ignore_errors=True)
        for name in ("lower", "upper", "work", "merged"):
            (layers / name).mkdir(parents=True)
        lower = layers / "lower"
        for folder in ("lib/deep/er", "src", "both"):
            (lower / folder).mkdir(parents=True)
        (lower / "lib/deep/er/file").write_text("in the image")
        (lower / "lib/deep").chmod(0o750)
        (lower / "lib/link").symlink_to("deep")
        (lower / "src/main.py").write_text("print(1)\n")
        (lower / "single").write_text("a file")
        (lower / "both/lower").write_text("lower")
        os.setxattr(lower / "lib", "user.note", b"kept")
        os.utime(lower / "lib/deep", ns=(5, 10**18 + 7))
        options = f"lowerdir={lower},upperdir={layers / 'upper'},workdir={layers / 'work'}"
        done = subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, layers / "merged"], check=False)
        if done.returncode != 0:
            require("overlay", "this kernel mounts no overlay here")
        mounted.append(layers / "merged")
        tree = layers / "merged"
        (tree / "both/upper").write_text("upper")
        (tree / "own").mkdir()
        (tree / "own/file").write_text("own")
        return tree

    def unmount():
        subprocess.run(["umount", mounted.pop()], check=True)

    yield mount
    if mounted:
        unmount()


def inside(tree) -> dict:
    return {path: about for path, about in describe(tree)[0].items() if path}


@pytest.fixture
def wanted(tmp_path, address):
    """A store, and a snapshot in which the folders of the lower layer are gone, files, or other folders."""
    tree = tmp_path / "wanted"
    (tree / "single").mkdir(parents=True)
    (tree / "single/inner").write_text("now a folder")
    (tree / "src").write_text("now a file")
    (tree / "both").symlink_to("src")
    store = Store.create(address)
    return store, store.snapshot(LocalTree(tree)).tree, inside(tree)


class Killed(BaseException):
    """Ends a restore at once, as a signal does."""


def stop_at(patch, number: int, error: BaseException) -> list:
    """Let the `number`-th change of a name fail; return the list of those that were begun."""
    calls: list = []

    def counted(function):
        def call(*args, **options):
            calls.append(function.__name__)
            if len(calls) == number:
                raise error
            return function(*args, **options)

        return call

    for module, name in ((moves, "rename_at"), (journal, "rename_at"), (os, "rmdir"), (os, "mkdir")):
        patch.setattr(module, name, counted(getattr(module, name)))
    return calls


def restored(store, tree_id, tree, tmp_path):
    return store.restore(tree_id, LocalTree(tree), journal=tmp_path / "journal")


def test_folders_of_the_lower_layer_are_removed_and_replaced(overlay, wanted, tmp_path):
    store, tree_id, as_wanted = wanted
    tree = overlay()
    before, as_before = store.snapshot(LocalTree(tree)).tree, inside(tree)
    restored(store, tree_id, tree, tmp_path)
    assert inside(tree) == as_wanted
    restored(store, before, tree, tmp_path)
    assert inside(tree) == as_before


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), Killed()], ids=["out of space", "killed"])
def test_a_restore_that_ends_anywhere_leaves_the_old_tree_or_the_new_one(overlay, wanted, tmp_path, error):
    store, tree_id, as_wanted = wanted
    number, calls = 1, [""]
    while len(calls) >= number:
        number += STEP
        tree = overlay()
        as_before = inside(tree)
        with pytest.MonkeyPatch.context() as patch:
            calls = stop_at(patch, number, error)
            with suppress(StoreError, OSError, Killed):
                restored(store, tree_id, tree, tmp_path)
        journal.recover(tmp_path / "journal")
        now = inside(tree)
        assert now in (as_before, as_wanted), number
        if len(calls) >= number:
            assert [path.name for path in tree.iterdir() if path.name.startswith(".")] == []
    assert (number > 20, now) == (True, as_wanted)

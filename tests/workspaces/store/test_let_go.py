"""What a store has open, files and cached blocks, is let go with it at once, and not at a later search for cycles."""

import gc
import threading
import weakref

import pytest

from workspaces.store import Cancelled, Store


@pytest.fixture(autouse=True)
def no_search_for_cycles():
    gc.disable()
    yield
    gc.enable()


def is_let_go(store, act) -> bool:
    """Open the store anew and call `act(opened)`; return whether nothing refers to what was opened afterwards."""
    opened = Store.open(store.blobs)
    catalog = weakref.ref(opened.catalog)
    act(opened)
    del opened
    return catalog() is None


def test_after_snapshots(store, tree, work):
    assert is_let_go(store, lambda opened: opened.snapshot(tree))
    (work / "README.md").write_text("# Other words\n")
    assert is_let_go(store, lambda opened: opened.snapshot(tree))
    assert is_let_go(store, lambda opened: opened.snapshot(tree, thorough=True))


def test_after_a_snapshot_that_was_cancelled(store, tree):
    cancelled = threading.Event()
    cancelled.set()

    def act(opened):
        with pytest.raises(Cancelled):
            opened.snapshot(tree, cancel=cancelled)

    assert is_let_go(store, act)


def test_after_a_restore_and_a_comparison(store, tree, work, tmp_path):
    kept = store.snapshot(tree)
    (work / "README.md").write_text("# Other words\n")
    assert is_let_go(store, lambda opened: opened.compare(kept.tree, tree))
    assert is_let_go(store, lambda opened: opened.restore(kept.tree, tree, journal=tmp_path / "journal"))
    assert (work / "README.md").read_text() == "# Words\n"


def test_after_a_collection_and_checks(store, tree, work):
    first = store.snapshot(tree, hold=0.0)
    (work / "README.md").write_text("# Other words\n")
    second = store.snapshot(tree, hold=0.0)
    assert is_let_go(store, lambda opened: list(opened.diff(first.tree, second.tree)))
    assert is_let_go(store, lambda opened: opened.usage([first.tree]))
    assert is_let_go(store, lambda opened: opened.freed([first.tree], [second.tree]))
    assert is_let_go(store, lambda opened: opened.gc([second.tree]))
    assert is_let_go(store, lambda opened: opened.verify(full=True))

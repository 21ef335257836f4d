import os
import time

import pytest

from tests.workspaces.store.guests import Guest
from workspaces.store import LocalTree, Store


@pytest.fixture
def store(tmp_path):
    return Store.create(tmp_path / "store")


@pytest.fixture
def work(tmp_path):
    """A live tree with some of everything that people have."""
    root = tmp_path / "work"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "src" / "main.py").write_text("print('hello')\n")
    (root / "src" / "deep" / "data.bin").write_bytes(os.urandom(300_000))
    (root / "README.md").write_text("# Words\n")
    (root / "link").symlink_to("src/main.py")
    return root


@pytest.fixture(params=["local", "guest"])
def tree_of(request):
    """`tree_of(folder)`: the folder as a tree on this host, or as one that is reached through a guest's server."""
    if request.param == "local":
        yield LocalTree
        return
    guests = {}

    def tree(folder):
        if folder not in guests:
            for older in list(guests)[:-3]:
                guests.pop(older).close()
            guests[folder] = Guest(folder)
        return guests[folder].tree()

    yield tree
    for guest in guests.values():
        guest.close()


@pytest.fixture
def tree(work, tree_of):
    return tree_of(work)


@pytest.fixture
def settle():
    """Wait until what was written is older than the racy window."""
    return lambda: time.sleep(0.05)

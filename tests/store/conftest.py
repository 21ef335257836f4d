import os
import time

import pytest

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


@pytest.fixture
def tree(work):
    return LocalTree(work)


@pytest.fixture
def settle():
    """Wait until what was written is older than the racy window."""
    return lambda: time.sleep(0.05)

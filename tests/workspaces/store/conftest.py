import itertools
import os
import time

import pytest

from tests.workspaces.store.guests import Guest
from workspaces.store import LocalTree, Store
from workspaces.store.guest.watched import GuestWatched
from workspaces.store.watch import Watched, kernels
from workspaces.store.watch.fanotify import Kernel
from workspaces.store.watch.inotify import Inotify
from workspaces.store.watch.marks import Marks

PREFIXES = itertools.count()


@pytest.fixture
def in_bucket(s3, tmp_path_factory, monkeypatch):
    """`in_bucket()`: the address of a store of its own on the server, for this process and those that it starts."""
    for name, value in s3.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("copies")))
    return lambda: s3.address(f"{os.getpid()}/{next(PREFIXES)}")


@pytest.fixture(params=["folder", "bucket"])
def addresses(request):
    """`addresses(path)`: where a new store is to be, at this folder of this host or at a prefix of a bucket."""
    if request.param == "folder":
        return lambda path: path
    in_bucket = request.getfixturevalue("in_bucket")
    return lambda path: in_bucket()


@pytest.fixture
def address(addresses, tmp_path):
    return addresses(tmp_path / "store")


@pytest.fixture
def store(address):
    return Store.create(address)


@pytest.fixture
def objects():
    """`objects(store)`: the names of the store's files or objects."""

    def read(store):
        if store.blobs.shared:
            return sorted(f"{at}/{found.name}" for at in ("packs", "index") for found in store.blobs.client.ls(at))
        return sorted(path for path in store.path.rglob("*") if path.is_file() and path.name != "lock")

    return read


@pytest.fixture
def packs():
    """`packs(store)`: the bytes of every pack that is there, whether the store still needs it or not."""

    def read(store):
        if store.blobs.shared:
            client = store.blobs.client
            return [client.get(f"packs/{found.name}")[0] for found in client.ls("packs")]
        return [path.read_bytes() for path in (store.path / "packs").iterdir()]

    return read


@pytest.fixture(params=[Kernel, Marks, Inotify], ids=["file-system", "each-inode", "inotify"])
def way(request, monkeypatch):
    """The way in which trees are watched: as it is for root, for everybody else, and in a container."""
    monkeypatch.setattr(kernels, "WAYS", (request.param,))
    monkeypatch.setattr(kernels, "_shared", {})
    return request.param


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
def watched_tree_of():
    """`watched_tree_of(folder)`: the folder as a tree on this host that is watched from its first snapshot on."""
    watches = {}

    def tree(folder):
        found = LocalTree(folder)
        found.watched = watches.setdefault(os.fspath(folder), Watched())
        return found

    yield tree
    for watched in watches.values():
        watched.close()


@pytest.fixture(params=["local", "watched", "marked", "guest", "watched-guest"])
def tree_of(request, monkeypatch):
    """`tree_of(folder)`: the folder as a tree on this host, watched or not, or reached through a guest's server."""
    if request.param == "local":
        yield LocalTree
        return
    if request.param == "marked":
        monkeypatch.setattr(kernels, "WAYS", (Marks,))
        monkeypatch.setattr(kernels, "_shared", {})
    if request.param in ("watched", "marked"):
        yield request.getfixturevalue("watched_tree_of")
        return
    guests = {}

    def tree(folder):
        if folder not in guests:
            for older in list(guests)[:-3]:
                guests.pop(older).close()
            guests[folder] = Guest(folder, watched=GuestWatched() if request.param == "watched-guest" else None)
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

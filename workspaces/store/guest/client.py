"""The host's side of a tree inside a guest: stats and new content are read over a stream, restores run in the guest.

The other end is `server.py`, which uses the standard library only; `bundle()` packs it. Hashing, comparing and
planning happen on the host. The guest only reports its entries, and its responses are untrusted.
"""

import io
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from ..attributes import Rules
from ..errors import StoreError
from ..file_reader import LeavesOut
from ..journal import RolledBack
from ..plan import Plan
from ..scan import Scan
from ..staging import Tick
from .files import RemoteFiles, open_folder
from .protocol import VERSION, Closed, Wire
from .scan import RemoteScan
from .sender import Sender
from .watched import GuestWatched

_MODULES = (
    "atomic_write", "attributes", "depth", "errors", "file_system", "files", "folded", "journal", "mount_point",
    "mount_table", "moves", "node", "safe_open", "stat_keys", "swap",
    "guest/__init__", "guest/builder", "guest/canary", "guest/exec", "guest/file_ops", "guest/protocol",
    "guest/server", "guest/walk", "guest/watch",
    "watch/__init__", "watch/fanotify", "watch/inotify", "watch/kernels", "watch/listing", "watch/marks",
    "watch/opened", "watch/watched", "watch/writers",
)  # fmt: skip
Connect = Callable[[], tuple[int, int, Callable[[], None]]]


def bundle() -> bytes:
    """Return the guest's server as the bytes of a zipapp, for `python3 FILE ROOT --journal JOURNAL`."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name: str, text: str) -> None:
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), text, zipfile.ZIP_DEFLATED)

        add("__main__.py", "import sys\n\nfrom handrail_tree.guest.server import main\n\nsys.exit(main())\n")
        add("handrail_tree/__init__.py", "")
        for name in _MODULES:
            add(f"handrail_tree/{name}.py", (Path(__file__).parent.parent / f"{name}.py").read_text())
    return out.getvalue()


class RemoteTree:
    """A folder inside a guest, with the interface of LocalTree.

    `connect` opens a stream to a new or idle server and returns (read descriptor, write descriptor, close function).
    `name` identifies the tree, `cache` is the file of its stat cache on this host, and `timeout_s` is the number of
    seconds without a response after which the stream counts as closed. The server's `--journal` argument sets the
    path of the journal, so the `journal` arguments of the store are ignored here.
    """

    def __init__(
        self, connect: Connect, *, name: str, cache: str | os.PathLike | None = None, timeout_s: float = 600.0
    ):
        self._connect, self.path, self._timeout_s = connect, Path(name), timeout_s
        self.cache = Path(cache) if cache is not None else None
        self.rules: Callable[[], LeavesOut | None] | None = None
        self.watched: GuestWatched | None = None  # if set, knows what may have changed since the last snapshot
        self.shared = self.made = None
        self.shown = None  # in a guest the manifest is mounted, and not written into the tree

    @contextmanager
    def opened(self) -> Iterator["RemoteLive"]:
        """Open a stream to the server. Raise StoreError if it disconnects or speaks another protocol version."""
        reading, writing, close = self._connect()
        try:
            yield RemoteLive(self.path, Wire(reading, writing, self._timeout_s))
        except Closed as error:
            raise StoreError(f"the connection to the guest of {self.path} was lost: {error}") from error
        finally:
            close()

    @contextmanager
    def files(self, folder: str = "tree") -> Iterator[RemoteFiles]:
        """Give access to single entries of the tree, or of another `folder` that the server was started with."""
        with self.opened() as live, open_folder(live, folder, partial(self.files, folder)) as files:
            yield files

    def run_read_only(self, argv: list[str], seconds: float, take: Callable[[bytes], object]) -> dict:
        """Run a read-only program in the guest, whose standard output goes to `take`; return {late, status, said}."""
        with self.files() as files:
            return files.run_read_only(argv, seconds, take)

    def recover(self, journal: object = None) -> str | None:
        """Finish or roll back an interrupted restore in the guest; must run before anything reads or starts there.

        Return "old" or "new" for the tree's state, or None if there was nothing to recover.
        """
        with self.opened() as live:
            return live.ask({"do": "recover"})["state"]


class RemoteLive:
    """The tree of a guest with an open stream to its server."""

    def __init__(self, path: Path, wire: Wire):
        self.path, self.wire = path, wire
        said = self.ask({"do": "hello"})
        if said.get("version") != VERSION:
            raise StoreError(f"the guest uses protocol version {said.get('version')}; this program supports {VERSION}")
        self.place = b"guest:" + os.fsencode(path)
        self.identity = (self.place, *map(int, said["identity"]))
        self.euid, self.owner = int(said["euid"]), tuple(map(int, said["owner"]))
        self._is_ctime_trusted, self._unfinished = bool(said["is_ctime_trusted"]), bool(said["unfinished"])
        self.watches = said.get("watches") is True  # an older guest does not
        self.root = b""

    # -- requests --------------------------------------------------------------------------------------------------

    def ask(self, head: dict, body: bytes = b"") -> dict:
        """Send one request and return the last frame's head of its response."""
        with self.talk(head, body) as answers:
            *_, (said, _) = answers
        return said

    @contextmanager
    def talk(self, head: dict, body: bytes = b"") -> Iterator[Iterator[tuple[dict, bytes]]]:
        """Send one request and yield an iterator over the frames of its response.

        If the caller raises before the last frame, the guest is asked to stop and the rest is discarded.
        """
        self.wire.send(head, body)
        heard = False

        def answers():
            nonlocal heard
            while not heard:
                said, data = self.wire.receive()
                heard = "end" in said
                if heard:
                    _raise(said)
                yield said, data

        try:
            yield answers()
        except Closed:
            raise  # the guest has disconnected, or the stream is out of sync
        except BaseException:
            if not heard:
                self.wire.send({"do": "stop"})
                self.hear_out()
            raise

    def hear_out(self) -> dict:
        """Discard frames up to the end of a response and return its last head; an error of the guest is not raised."""
        while "end" not in (said := self.wire.receive()[0]):
            pass
        return said

    def answer(self) -> dict:
        """Return the last head of the response to a request sent in pieces. Raise the guest's error."""
        said = self.hear_out()
        _raise(said)
        return said

    def begin(self) -> int:
        return int(self.ask({"do": "begin"})["started_ns"])

    def is_ctime_trusted(self) -> bool:
        return self._is_ctime_trusted

    def unfinished(self, journal: object) -> bool:
        return self._unfinished

    def scan(self, sink, cache, **options) -> Scan:
        return RemoteScan(sink, cache, live=self, **options)

    def carry_out(
        self, catalog, plan: Plan, rules: Rules, links: dict[bytes, list[bytes]], journal: object, tick: Tick
    ) -> None:
        """Execute the steps of a plan in the guest atomically: all of them, or none after an error."""
        self.wire.send({"do": "restore"})
        sender = Sender(self.wire, catalog, plan, rules, links, tick)
        try:
            sender.send()
        except Closed:
            raise
        except BaseException:
            self.wire.send({"abort": True})
            self.hear_out()
            raise
        self.answer()


def _raise(said: dict) -> None:
    """Raise an error reported by the guest as the exception that a local tree would raise."""
    if "error" not in said:
        return
    message = f"in the guest: {str(said['error'])[:500]}"
    if said.get("what") == "rolled back":
        raise RolledBack(message)
    if isinstance(said.get("errno"), int):
        raise OSError(said["errno"], message)
    raise StoreError(message)

"""A tree inside a guest: stats and new content come over a stream, and a restore is built and exchanged there.

The other end is `guest.py`, which needs nothing but Python; `bundle()` packs it. Hashing, comparing and planning are
done here, so the guest only tells what it holds. What it says is not trusted further than that.
"""

import io
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from .attributes import Rules
from .errors import StoreError
from .journal import TakenBack
from .plan import Plan
from .remote_files import RemoteFiles, held
from .remote_scan import RemoteScan
from .scan import Scan
from .sending import Sender
from .staging import Tick
from .wire import VERSION, Closed, Wire

_MODULES = (
    "applying", "attributes", "beneath", "durable", "errors", "file_verbs", "files", "guest", "journal", "looking",
    "making", "sparse", "wire",
)  # fmt: skip
Connect = Callable[[], tuple[int, int, Callable[[], None]]]


def bundle() -> bytes:
    """Return the guest's server as one file, for `python3 FILE ROOT --journal JOURNAL`."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:

        def add(name: str, text: str) -> None:
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), text, zipfile.ZIP_DEFLATED)

        add("__main__.py", "import sys\n\nfrom handrail_tree.guest import main\n\nsys.exit(main())\n")
        add("handrail_tree/__init__.py", "")
        for name in _MODULES:
            add(f"handrail_tree/{name}.py", Path(__file__).with_name(f"{name}.py").read_text())
    return out.getvalue()


class RemoteTree:
    """A folder inside a guest. `connect` gives (descriptor to read, descriptor to write, what closes them) of a stream
    to a new or idle server; `name` tells this tree from others, `cache` is the file of its stat cache on this host.

    The journal of a restore lies where the server was told to put it, so the store's own argument does not count here.
    """

    def __init__(self, connect: Connect, *, name: str, cache: str | os.PathLike | None = None, patience: float = 600.0):
        self._connect, self.path, self._patience = connect, Path(name), patience
        self.cache = Path(cache) if cache is not None else None

    @contextmanager
    def opened(self) -> Iterator["RemoteLive"]:
        """Speak with the server for a while; StoreError if it has gone or speaks another version."""
        reading, writing, close = self._connect()
        try:
            yield RemoteLive(self.path, Wire(reading, writing, self._patience))
        except Closed as error:
            raise StoreError(f"the guest of {self.path} broke off: {error}") from error
        finally:
            close()

    @contextmanager
    def files(self, folder: str = "tree") -> Iterator[RemoteFiles]:
        """Look at single entries of the tree, or of another folder that the server was told of, for a while."""
        with self.opened() as live, held(live, folder, partial(self.files, folder)) as files:
            yield files

    def look(self, argv: list[str], seconds: float) -> bytes | None:
        """What a program prints that only looks at the tree, run in the guest; None when its time was too short."""
        with self.files() as files:
            return files.look(argv, seconds)

    def recover(self, journal: object = None) -> str | None:
        """Finish or take back a restore that was cut off in the guest; before anything reads or starts there."""
        with self.opened() as live:
            return live.ask({"do": "recover"})["state"]


class RemoteLive:
    """The tree of a guest while a stream to it is open."""

    def __init__(self, path: Path, wire: Wire):
        self.path, self.wire = path, wire
        said = self.ask({"do": "hello"})
        if said.get("version") != VERSION:
            raise StoreError(f"the guest of {path} speaks version {said.get('version')}; this program knows {VERSION}")
        self.place = b"guest:" + os.fsencode(path)
        self.identity = (self.place, *map(int, said["identity"]))
        self.euid, self.owner = int(said["euid"]), tuple(map(int, said["owner"]))
        self._times_tell, self._unfinished = bool(said["times_tell"]), bool(said["unfinished"])
        self.root = b""

    # -- asking ----------------------------------------------------------------------------------------------------

    def ask(self, head: dict, body: bytes = b"") -> dict:
        """Send one request and return the end of its answer."""
        with self.talk(head, body) as answers:
            *_, (said, _) = answers
        return said

    @contextmanager
    def talk(self, head: dict, body: bytes = b"") -> Iterator[Iterator[tuple[dict, bytes]]]:
        """Send one request and give its answer, frame by frame; who leaves early has the guest stop."""
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
            raise  # it has gone, or there is no telling what it would say next
        except BaseException:
            if not heard:
                self.wire.send({"do": "stop"})
                self.hear_out()
            raise

    def hear_out(self) -> dict:
        """The end of an answer; what went wrong in the guest is not raised here."""
        while "end" not in (said := self.wire.receive()[0]):
            pass
        return said

    def answer(self) -> dict:
        """The end of an answer to something that was sent piece by piece."""
        said = self.hear_out()
        _raise(said)
        return said

    def begin(self) -> int:
        return int(self.ask({"do": "begin"})["started_ns"])

    def times_tell(self) -> bool:
        return self._times_tell

    def unfinished(self, journal: object) -> bool:
        return self._unfinished

    def scan(self, sink, cache, **options) -> Scan:
        return RemoteScan(sink, cache, live=self, **options)

    def carry_out(
        self, catalog, plan: Plan, rules: Rules, links: dict[bytes, list[bytes]], journal: object, tick: Tick
    ) -> None:
        """Make the steps of a plan true in the guest: all of them, or after an error none."""
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
    """Raise what went wrong in the guest as it would have been raised here."""
    if "error" not in said:
        return
    message = f"in the guest: {str(said['error'])[:500]}"
    if said.get("what") == "taken back":
        raise TakenBack(message)
    if isinstance(said.get("errno"), int):
        raise OSError(said["errno"], message)
    raise StoreError(message)

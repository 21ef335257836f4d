"""The guest's file server: list, read and restore the guest's tree on request of the host.

    python3 handrail-tree.pyz ROOT --journal FILE              serve one host on standard input and output
    python3 handrail-tree.pyz ROOT --journal FILE --recover    only finish or roll back an interrupted restore

Uses the standard library only; `client.bundle()` packs it. The host makes all decisions; only work that must happen
in the guest is done here: consistent reads, and restores with a journal on the guest's own disk.
"""

import argparse
import ctypes
import json
import os
import stat
import sys
import time
import traceback
from pathlib import Path

from .. import mount_point, swap
from ..errors import StoreError, name_the_path, path_of
from ..file_system import extents, is_ctime_trusted, sync_tree
from ..journal import RolledBack, read_journal, recover
from ..safe_open import open_beneath, open_root, parent_beneath
from .builder import StageBuilder
from .exec import ReadOnlyProgram
from .file_ops import FileVerbs
from .protocol import (
    BECAME_FOLDER,
    FILL,
    GONE,
    KEPT_OUT,
    READ,
    READ_ITEM,
    VERSION,
    Closed,
    Stat,
    Wire,
    waits_for,
)
from .walk import Walk, encoded_xattrs
from .watch import TreeWatch

LARGE = 1 << 20
_PR_SET_DUMPABLE = 4
TRIES = 6
OTHERS = ("home", "installed")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class Aborted(StoreError):
    """The host cancelled the request; the tree is unchanged."""


class Server:
    """Serve one host, one request at a time."""

    def __init__(self, wire: Wire, root: str, journal: str, others: dict[str, str]):
        self.wire, self.journal = wire, Path(journal)
        self.place = os.fsencode(os.path.realpath(root))
        self.root = open_root(root)
        self.found = os.fstat(self.root)
        self.watch = TreeWatch(wire, self.root, self.place, self.journal)
        single = FileVerbs(wire, {"tree": self.root} | {name: open_root(path) for name, path in others.items()})
        self.do = {"hello": self.hello, "begin": self.begin, "list": self.folders, "read": self.read,
                   "restore": self.restore, "recover": self.recover, "file": single.answer,
                   "watch": self.watch.begin, "settle": self.watch.settle,
                   "run_read_only": ReadOnlyProgram(wire, self.root).answer,
                   "stop": lambda head, body: None}  # fmt: skip

    def serve(self) -> None:
        """Serve requests until the host disconnects."""
        while True:
            try:
                head, body = self.wire.receive()
            except Closed:
                return
            try:
                self.do[head["do"]](head, body)
            except Closed:
                return
            except Exception as error:  # one request must not end the server of all others
                self.wire.send({"end": True} | _error_message(error))

    def hello(self, head: dict, body: bytes) -> None:
        self.found = os.fstat(self.root)
        self.wire.send({
            "end": True, "version": VERSION, "euid": os.geteuid(), "owner": [self.found.st_uid, self.found.st_gid],
            "place": self.place.decode("latin-1"), "identity": [self.found.st_dev, self.found.st_ino],
            "is_ctime_trusted": is_ctime_trusted(self.root), "unfinished": read_journal(self.journal) is not None,
            "watches": True,
        })  # fmt: skip

    def begin(self, head: dict, body: bytes) -> None:
        """Send the guest's clock in Unix ns, read before a sync: a write that the sync missed has a later ctime."""
        started_ns = time.time_ns()
        sync_tree(self.root)
        self.wire.send({"end": True, "started_ns": started_ns})

    def recover(self, head: dict, body: bytes) -> None:
        self.wire.send({"end": True, "state": recover(self.journal)})

    # -- listing ---------------------------------------------------------------------------------------------------

    def folders(self, head: dict, body: bytes) -> None:
        """Send folders with the stat of each of their entries; the last frame has the stat of the root.

        With `watched`, those that the watch names, and the inodes of the folders of each frame.
        """
        device, is_watched = self.found.st_dev, head.get("watched", False)
        walk = self.watch.walk(device) if is_watched else Walk(self.root, device)
        out, inodes = bytearray(), []
        for item, inode in walk.items():
            out += item
            inodes.append(inode)
            if len(out) >= FILL:
                if self._cancelled():
                    break
                self._send_folders(out, inodes, is_watched)
        self._send_folders(out, inodes, is_watched)
        root = Stat.of(os.fstat(self.root), device)
        self.wire.send({"end": True, "root": root, "hidden": self._hidden()})

    def _send_folders(self, out: bytearray, inodes: list[int], is_watched: bool) -> None:
        self.wire.send({"folders": True} | ({"inodes": inodes} if is_watched else {}), out)
        out.clear()
        inodes.clear()

    def _hidden(self) -> dict[str, str]:
        """Return {path of a folder: name of its entry that is a driver's and not part of the tree}."""
        found = {}
        for path in ("", mount_point.FOLDER):
            try:
                fd = open_beneath(self.root, path.encode(), _FOLDER)
            except OSError:
                continue
            try:
                found[path] = mount_point.hidden(fd, path)
            finally:
                os.close(fd)
        return found

    def _cancelled(self) -> bool:
        """Return True if the host has sent a frame during a response, which can only be `stop`."""
        if not waits_for(self.wire.reading, 0):
            return False
        self.wire.receive()
        return True

    # -- reading ---------------------------------------------------------------------------------------------------

    def read(self, head: dict, body: bytes) -> None:
        """Send each path of the body (joined by NUL); the first `bare` ones with stat and extended attributes only."""
        out = bytearray()
        for number, path in enumerate(body.split(b"\0")):
            try:
                out += self._entry(number, path, number < head["bare"], out)
            except Exception as error:
                name_the_path(error, os.fsdecode(path))
                raise
            if len(out) >= FILL:
                if self._cancelled():
                    break
                self.wire.send({"items": True}, out)
                out.clear()
        self.wire.send({"items": True}, out)
        self.wire.send({"end": True})

    def _entry(self, number: int, path: bytes, bare: bool, before: bytearray) -> bytes:
        try:
            with parent_beneath(self.root, path) as (at, name):
                found = os.stat(name, dir_fd=at, follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    return _read_item(BECAME_FOLDER, number)
                if stat.S_ISREG(found.st_mode) and not bare:
                    return self._file(number, at, name, found, before)
                content = b""
                if stat.S_ISLNK(found.st_mode):
                    content = os.readlink(name, dir_fd=at)
                xattrs = encoded_xattrs(b"/proc/self/fd/%d/%s" % (at, name))
                return self._item(number, found, content, xattrs)
        except (FileNotFoundError, NotADirectoryError):
            return _read_item(GONE, number)
        except OSError as error:
            reason = "permission denied" if isinstance(error, PermissionError) else f"cannot be read: {error.strerror}"
            return _read_item(KEPT_OUT, number, reason=reason.encode())

    def _item(self, number: int, found: os.stat_result, content: bytes, xattrs: bytes) -> bytes:
        return _read_item(READ, number, Stat.of(found, self.found.st_dev).pack(), content, xattrs)

    def _file(self, number: int, at: int, name: bytes, found: os.stat_result, before: bytearray) -> bytes:
        fd = self.watch.open_unheard(at, name)
        if fd is None:
            fd = self._open(at, name, found)
        try:
            for attempt in range(TRIES):
                last = attempt == TRIES - 1
                runs = extents(fd, found)
                if found.st_size <= LARGE and all(is_data for _, _, is_data in runs):
                    content = os.pread(fd, found.st_size + 1, 0) if found.st_size else b""
                    xattrs = encoded_xattrs(fd)
                    after = os.fstat(fd)
                    if _key(after) == _key(found):
                        return self._item(number, found, content, xattrs)
                    if last:
                        return _read_item(
                            READ, number, Stat.of(found, self.found.st_dev).pack(), content, xattrs, b"torn"
                        )
                elif self._large(number, fd, found, runs, before, last):
                    return b""
                found = os.fstat(fd)
                time.sleep(0.001 * attempt)
        finally:
            os.close(fd)
        raise AssertionError("unreachable")

    def _open(self, at: int, name: bytes, found: os.stat_result) -> int:
        if os.geteuid() in (0, found.st_uid):  # only the owner and root may use O_NOATIME
            try:
                return os.open(name, _READ | os.O_NOATIME, dir_fd=at)
            except PermissionError:
                pass
        return os.open(name, _READ, dir_fd=at)

    def _large(self, number: int, fd: int, found, runs, before: bytearray, last: bool) -> bool:
        """Send a file in pieces. Return False if it changed meanwhile and must be sent again."""
        if before:
            self.wire.send({"items": True}, before)
            before.clear()
        self.wire.send({"large": number}, json.dumps(runs).encode())
        for start, end, is_data in runs:
            at = start
            while is_data and at < end:
                data = os.pread(fd, min(FILL, end - at), at)
                at += len(data)
                # The file was truncated meanwhile: pad with zeros; the stat afterwards shows the change.
                self.wire.send({"data": True}, data or bytes(min(FILL, end - at)))
                at = at if data else min(end, at + FILL)
                if self._cancelled():
                    raise Aborted("cancelled")
        xattrs = encoded_xattrs(fd)
        same = _key(os.fstat(fd)) == _key(found)
        stats = Stat.of(found, self.found.st_dev)
        self.wire.send({"done": number, "same": same, "again": not same and not last, "stat": stats}, xattrs)
        return same or last

    # -- restoring -------------------------------------------------------------------------------------------------

    def restore(self, head: dict, body: bytes) -> None:
        """Build the entries that the host sends in a stage beside the tree, then exchange them atomically."""
        begun = False

        def build(stage_fd: int) -> list[dict]:
            nonlocal begun
            begun = True
            return self._build(stage_fd)

        try:
            if read_journal(self.journal) is not None:
                raise StoreError("an earlier restore was interrupted; recover it first")
            swap.apply(self.place, self.root, self.journal, build)
        finally:
            if not begun:
                self._drain()
        self.wire.send({"end": True})

    def _drain(self) -> None:
        """Discard the rest of the host's request, so that it gets to read the response."""
        while True:
            head, _ = self.wire.receive()
            if "abort" in head or ("drafts" in head and not head["drafts"]):
                return
            if "link" in head:
                self.wire.send({"linked": False})

    def _build(self, stage_fd: int) -> list[dict]:
        builder, text = StageBuilder(stage_fd, self.root), b""
        try:
            while True:
                head, body = self.wire.receive()
                if "abort" in head:
                    raise Aborted("cancelled by the host")
                if "drafts" in head:
                    text += body
                    if not head["drafts"]:  # the last part
                        return json.loads(text)
                    continue
                try:
                    if "link" in head:
                        self.wire.send({"linked": builder.link(head["link"], head["to"])})
                    else:
                        builder.make(head["make"], body)
                except OSError:
                    self._drain()
                    raise
        finally:
            builder.close()


def _error_message(error: Exception) -> dict:
    """Return an error as the host is told it."""
    what = "rolled back" if isinstance(error, RolledBack) else type(error).__name__
    number = error.errno if isinstance(error, OSError) else None
    if isinstance(error, (StoreError, OSError)):
        said = (error.strerror if number else "") or str(error)
    else:
        traceback.print_exc()
        said = f"internal error ({error!r:.200})"
    return {"error": said + path_of(error), "what": what, "errno": number}


def _key(found: os.stat_result) -> tuple:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read_item(status, number, found=b"", content=b"", xattrs=b"", reason=b"") -> bytes:
    head = READ_ITEM.pack(status, number, len(content), len(xattrs), len(reason))
    return head + found + content + xattrs + reason


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="handrail-tree", description=__doc__.partition("\n")[0])
    parser.add_argument("root")
    parser.add_argument("--journal", required=True, help="the journal of restores, outside the tree")
    for name in OTHERS:
        parser.add_argument(f"--{name}", help="a further folder whose entries can be requested")
    parser.add_argument("--recover", action="store_true", help="recover an interrupted restore and exit")
    return parser.parse_args()


def keep_from_others() -> None:
    """Keep programs of the same user, as in a pod, from this process's memory and descriptors."""
    if ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise SystemExit("cannot protect the file server from other programs")


def main() -> int:
    args = _arguments()
    if args.recover:
        print(json.dumps({"state": recover(args.journal)}))
        return 0
    keep_from_others()
    others = {name: path for name in OTHERS if (path := getattr(args, name))}
    Server(Wire(0, 1), args.root, args.journal, others).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The tree of a running guest, for the store: a connection to one server in the guest, reused between requests."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from workspaces.store.errors import StoreError
from workspaces.store.guest.client import RemoteLive, RemoteTree
from workspaces.store.guest.files import RemoteFiles, open_folder
from workspaces.store.guest.protocol import Closed, Wire

from ..base import DriverError
from ..init_client import InitClient, InitRefused, short_address

_idle: dict[str, socket.socket] = {}  # {path of the port: an idle stream to its server}
_turns: dict[str, threading.Lock] = {}  # {path of the port: its lock}; a guest serves one client at a time
_changing = threading.Lock()
OUT_OF_REACH = "The workspace's files can't be reached: {}. Try again."
ENDING = "it is pausing or ending"
WHY = 200  # characters of what the guest says why
GREETING_S = (60.0, 120.0)  # for each attempt to start a server; long, for an emulated guest on a busy host
NOT_SERVING = ("the file server has ended", "the file server did not start")  # as the guest says it
FILES_S = 30.0  # for requests about single entries; a scan may be silent for longer


class GuestTree(RemoteTree):
    """`port` is the socket of the stream, `init` the Run's socket; `name` identifies this tree.

    `folder`: which one the server serves, where there is one for each: "tree" or "home".
    """

    def __init__(self, port: Path, init: str, *, name: str, cache: str | os.PathLike | None = None, folder="tree"):
        super().__init__(None, name=name, cache=cache)
        self._port, self._init, self._folder = port, init, folder

    @contextmanager
    def opened(self) -> Iterator[RemoteLive]:
        with self._locked_connection(self._timeout_s) as live:
            yield live

    @contextmanager
    def files(self, folder: str = "tree") -> Iterator[RemoteFiles]:
        with self._locked_connection(FILES_S) as live, open_folder(live, folder, partial(self.files, folder)) as files:
            yield files

    @contextmanager
    def tree_and_home(self) -> Iterator[tuple[RemoteFiles, RemoteFiles]]:
        """Open both over one connection: opening one inside the other would deadlock on the port's lock."""
        with (
            self._locked_connection(FILES_S) as live,
            open_folder(live, "tree", partial(self.files, "tree")) as tree,
            open_folder(live, "home", partial(self.files, "home")) as home,
        ):
            yield tree, home

    @contextmanager
    def _locked_connection(self, timeout_s: float) -> Iterator[RemoteLive]:
        """Yield the server's connection while holding the port's lock; DriverError if others keep it busy."""
        with _changing:
            turn = _turns.setdefault(str(self._port), threading.Lock())
        if not turn.acquire(timeout=timeout_s):
            raise DriverError("The workspace's files are being read or restored. Try again in a moment.")
        try:
            with self._spoken(timeout_s) as live:
                yield live
        finally:
            turn.release()

    @contextmanager
    def _spoken(self, timeout_s: float) -> Iterator[RemoteLive]:
        """Yield a connection to the server, and keep it afterwards if it is still usable."""
        stream, live = self._reach(timeout_s)
        try:
            yield live
        except Closed as error:
            stream.close()
            raise StoreError(f"the connection to the guest was lost: {error}") from error
        except OSError:
            self._keep(stream)  # an error in the guest's answer; the stream is still in sync
            raise
        except BaseException:
            stream.close()  # the stream may be in the middle of an answer
            raise
        self._keep(stream)

    def _keep(self, stream: socket.socket) -> None:
        with _changing:
            kept = _idle.setdefault(str(self._port), stream)
        if kept is not stream:
            stream.close()

    def _reach(self, timeout_s: float) -> tuple[socket.socket, RemoteLive]:
        """Return an idle connection that still answers, or start a new server."""
        with _changing:
            stream = _idle.pop(str(self._port), None)
        if stream is not None:
            try:
                return stream, self._greeted(stream, timeout_s)
            except (Closed, OSError):
                stream.close()  # the guest was paused or has ended meanwhile
        for greeting_s in GREETING_S:
            stream = self._new()
            try:
                self._greeted(stream, greeting_s)
                return stream, self._greeted(stream, timeout_s)
            except Closed as error:
                # A server that found nobody connected to its port exits at once, unnoticed; start another.
                stream.close()
                silent = error
            except BaseException:
                stream.close()
                raise
        raise DriverError(OUT_OF_REACH.format(self._why_not_served() or ENDING)) from silent

    def _greeted(self, stream: socket.socket, timeout_s: float) -> RemoteLive:
        return RemoteLive(self.path, Wire(stream.fileno(), stream.fileno(), timeout_s, self._is_served))

    def _is_served(self) -> bool:
        """Return False if the guest says that its server ended: QEMU keeps the port open then."""
        return not self._why_not_served()

    def _why_not_served(self) -> str:
        """Return what the guest says of a server that ended or did not start; "" if one runs, or it says nothing."""
        try:
            with InitClient(self._init, timeout_s=10, greeted=False) as client:
                client.request("is_serving", folder=self._folder)
        except InitRefused as refused:  # an older guest does not know the question
            return str(refused)[:WHY] if any(words in str(refused) for words in NOT_SERVING) else ""
        except DriverError:
            pass  # it is paused or busy
        return ""

    def _new(self) -> socket.socket:
        """Connect to the port and make the guest start a server for it."""
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            with short_address(self._port) as address:
                stream.connect(address)
            with InitClient(self._init, timeout_s=60) as client:
                client.request("serve")
        except (OSError, InitRefused) as error:
            stream.close()
            raise DriverError(OUT_OF_REACH.format(ENDING)) from error
        except BaseException:
            stream.close()
            raise
        return stream


def forget(port: Path) -> None:
    """Close the idle stream to a guest that is gone, and drop the port's lock."""
    with _changing:
        stream = _idle.pop(str(port), None)
        _turns.pop(str(port), None)
    if stream is not None:
        stream.close()

"""The tree of a running guest, for the store: one server in the guest, kept from one question to the next."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from ...store.errors import StoreError
from ...store.remote import RemoteLive, RemoteTree
from ...store.remote_files import RemoteFiles, held
from ...store.wire import Closed, Wire
from ..base import DriverError
from ..initclient import InitClient, InitRefused, short_address

_idle: dict[str, socket.socket] = {}  # path of the port: a stream to a server that waits
_turns: dict[str, threading.Lock] = {}  # path of the port: who speaks there; a guest serves one at a time
_changing = threading.Lock()
OUT_OF_REACH = "The workspace's files cannot be reached at this moment: it goes to sleep, or ends. Try again."
GREETING_S = (60.0, 120.0)  # for a server that has just been started, in an emulated guest of a busy host
FILES_S = 30.0  # for a look at single entries; a scan may be silent for longer


class GuestTree(RemoteTree):
    """`port` is QEMU's end of the stream, `init` the Run's socket, `name` what tells this tree from others."""

    def __init__(self, port: Path, init: str, *, name: str, cache: str | os.PathLike | None = None):
        super().__init__(None, name=name, cache=cache)
        self._port, self._init = port, init

    @contextmanager
    def opened(self) -> Iterator[RemoteLive]:
        with self._held(self._patience) as live:
            yield live

    @contextmanager
    def files(self, folder: str = "tree") -> Iterator[RemoteFiles]:
        with self._held(FILES_S) as live, held(live, folder, partial(self.files, folder)) as files:
            yield files

    @contextmanager
    def _held(self, patience: float) -> Iterator[RemoteLive]:
        with _changing:
            turn = _turns.setdefault(str(self._port), threading.Lock())
        if not turn.acquire(timeout=patience):
            raise DriverError("The workspace's files are being read or put back as a whole. Try again in a moment.")
        try:
            with self._spoken(patience) as live:
                yield live
        finally:
            turn.release()

    @contextmanager
    def _spoken(self, patience: float) -> Iterator[RemoteLive]:
        stream, live = self._reach(patience)
        try:
            yield live
        except Closed as error:
            stream.close()
            raise StoreError(f"the guest broke off: {error}") from error
        except OSError:
            self._keep(stream)  # it is what the guest had to say; it has said it to the end
            raise
        except BaseException:
            stream.close()  # there is no telling where it stands
            raise
        self._keep(stream)

    def _keep(self, stream: socket.socket) -> None:
        with _changing:
            kept = _idle.setdefault(str(self._port), stream)
        if kept is not stream:
            stream.close()

    def _reach(self, patience: float) -> tuple[socket.socket, RemoteLive]:
        with _changing:
            stream = _idle.pop(str(self._port), None)
        if stream is not None:
            try:
                return stream, self._greeted(stream, patience)
            except (Closed, OSError):
                stream.close()  # the guest was paused or has ended meanwhile
        for greeting_s in GREETING_S:
            stream = self._new()
            try:
                self._greeted(stream, greeting_s)
                return stream, self._greeted(stream, patience)
            except Closed as error:
                # One that saw nobody at its port ends at once, and nothing tells us; another is started.
                stream.close()
                silent = error
            except BaseException:
                stream.close()
                raise
        raise DriverError(OUT_OF_REACH) from silent

    def _greeted(self, stream: socket.socket, patience: float) -> RemoteLive:
        return RemoteLive(self.path, Wire(stream.fileno(), stream.fileno(), patience))

    def _new(self) -> socket.socket:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            with short_address(self._port) as address:
                stream.connect(address)
            with InitClient(self._init, timeout_s=60) as client:
                client.request("serve")
        except (OSError, InitRefused) as error:
            stream.close()
            raise DriverError(OUT_OF_REACH) from error
        return stream


def forget(port: Path) -> None:
    """Close the stream to a guest that is gone."""
    with _changing:
        stream = _idle.pop(str(port), None)
        _turns.pop(str(port), None)
    if stream is not None:
        stream.close()

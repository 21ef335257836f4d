"""The tree of a running guest, for the store: one server in the guest, kept from one question to the next."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ...store.remote import RemoteLive, RemoteTree
from ...store.wire import Closed, Wire
from ..base import DriverError
from ..initclient import InitClient, InitRefused, short_address

_idle: dict[str, socket.socket] = {}  # path of the port: a stream to a server that waits
_changing = threading.Lock()


class GuestTree(RemoteTree):
    """`port` is QEMU's end of the stream, `init` the Run's socket, `name` what tells this tree from others."""

    def __init__(self, port: Path, init: str, *, name: str, cache: str | os.PathLike | None = None):
        super().__init__(None, name=name, cache=cache)
        self._port, self._init = port, init

    @contextmanager
    def opened(self) -> Iterator[RemoteLive]:
        stream, live = self._reach()
        try:
            yield live
        except BaseException:
            stream.close()  # there is no telling where it stands
            raise
        with _changing:
            kept = _idle.setdefault(str(self._port), stream)
        if kept is not stream:
            stream.close()

    def _reach(self) -> tuple[socket.socket, RemoteLive]:
        with _changing:
            stream = _idle.pop(str(self._port), None)
        if stream is not None:
            try:
                return stream, self._greeted(stream)
            except (Closed, OSError):
                stream.close()  # the guest was paused or has ended meanwhile
        stream = self._new()
        try:
            return stream, self._greeted(stream)
        except Closed as error:
            stream.close()
            raise DriverError(f"The workspace's files cannot be reached: {error}") from error
        except BaseException:
            stream.close()
            raise

    def _greeted(self, stream: socket.socket) -> RemoteLive:
        return RemoteLive(self.path, Wire(stream.fileno(), stream.fileno(), self._patience))

    def _new(self) -> socket.socket:
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            with short_address(self._port) as address:
                stream.connect(address)
            with InitClient(self._init, timeout_s=60) as client:
                client.request("serve")
        except (OSError, InitRefused) as error:
            stream.close()
            raise DriverError(f"The workspace's files cannot be reached: {error}") from error
        return stream


def forget(port: Path) -> None:
    """Close the stream to a guest that is gone."""
    with _changing:
        stream = _idle.pop(str(port), None)
    if stream is not None:
        stream.close()

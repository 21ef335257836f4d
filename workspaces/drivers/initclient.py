"""The outside end of a conversation with a Run's init; the protocol is in `init.py`."""

import array
import json
import os
import socket
import struct
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .base import DriverError

PROTOCOL = 1


class InitGone(DriverError):
    """The init does not answer, or went away: its Run has ended or is ending."""


class InitRefused(DriverError):
    """The init is there and said no."""


@contextmanager
def short_address(path: Path) -> Iterator[str]:
    """A name for the unix socket `path` that fits into the 107 bytes the kernel allows."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


@dataclass(frozen=True)
class Started:
    """A program that runs. `fd` is the pty's master or the output's read end; None when the caller gave its own."""

    pid: int  # as the init counts
    fd: int | None


class InitClient:
    """A blocking connection with a time-out for each answer. `exits` fills with (pid, status) as they are read.

    `greeted=False`: what the bridge of a guest answers by itself is asked before the init has said a word.
    """

    def __init__(self, path: str | Path, timeout_s: float = 10.0, *, greeted: bool = True):
        self.exits: deque[tuple[int, int]] = deque()
        self._received = bytearray()
        self._fds: list[int] = []
        self._last_id = 0
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._sock.settimeout(timeout_s)
        try:
            with short_address(Path(path)) as address:
                self._sock.connect(address)
            self.hello = self._next() if greeted else {"protocol": PROTOCOL}
        except OSError as error:
            self.close()
            raise InitGone("The workspace's programs cannot be reached: its first process does not answer.") from error
        except InitGone:
            self.close()
            raise
        if self.hello.get("protocol") != PROTOCOL:
            self.close()
            raise DriverError(f"The workspace was started by another version (protocol {self.hello.get('protocol')}).")

    def __enter__(self) -> "InitClient":
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()
        self._sock.close()

    def fileno(self) -> int:
        return self._sock.fileno()

    def request(self, op: str, *, timeout_s: float | None = None, fds: Sequence[int] = (), **fields) -> dict:
        """Ask and wait for the answer; InitRefused with what the init says, InitGone when it is lost."""
        self._last_id += 1
        body = json.dumps({"id": self._last_id, "op": op, **fields}).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        patience = self._sock.gettimeout()
        if timeout_s is not None:
            self._sock.settimeout(timeout_s)
        try:
            frame = struct.pack(">I", len(body)) + body
            sent = self._sock.sendmsg([frame], rights)
            self._sock.sendall(frame[sent:])
            while True:
                answer = self._next()
                if answer.get("id") == self._last_id:
                    break
            # An exit that came in the same packet would wait unread: nothing makes the socket readable again.
            self._take_exits()
        except OSError as error:
            raise InitGone("The workspace's first process went away.") from error
        finally:
            self._sock.settimeout(patience)
        if "error" in answer:
            raise InitRefused(answer["error"])
        return answer

    def start(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: str, stdio: str, **fields) -> Started:
        """Start a program; names that are not UTF-8 are strings as `os.fsdecode` makes them."""
        answer = self.request("start", argv=list(argv), env=dict(env), cwd=cwd, stdio=stdio, **fields)
        return Started(answer["pid"], self._fds.pop(0) if answer["fds"] else None)

    def adopt(self, program: Started, before: "InitClient", *, stdio: str, cols: int, rows: int) -> Started:
        """Take over what was started over the connection `before`, which a pause with memory has ended."""
        self._last_id = before._last_id  # an answer to it may still be on its way
        answer = self.request("adopt", pid=program.pid, stdio=stdio, cols=cols, rows=rows)
        return Started(program.pid, self._fds.pop(0) if answer["fds"] else None)

    def dial(self, port: int) -> socket.socket:
        """A connection to 127.0.0.1:port inside; only where the init stands on the host for a guest."""
        answer = self.request("dial", port=port)
        if not answer["fds"]:
            raise InitGone("The workspace's first process went away.")
        return socket.socket(fileno=self._fds.pop(0))

    def read_exits(self) -> None:
        """Read what has come without being asked for, if anything has; InitGone at the end of the conversation."""
        patience = self._sock.gettimeout()
        self._sock.settimeout(0)
        try:
            self._receive()
        except BlockingIOError:
            pass
        except OSError as error:
            raise InitGone("The workspace's first process went away.") from error
        finally:
            self._sock.settimeout(patience)
        self._take_exits()

    def _take_exits(self) -> None:
        while self._frame() is not None:
            pass

    def _next(self) -> dict:
        while True:
            message = self._frame()
            if message is not None:
                return message
            self._receive()

    def _receive(self) -> None:
        room = socket.CMSG_SPACE(16 * array.array("i").itemsize)
        data, rights, _flags, _address = self._sock.recvmsg(1 << 16, room, socket.MSG_CMSG_CLOEXEC)
        for level, kind, payload in rights:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds = array.array("i")
                fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
                self._fds.extend(fds)
        if not data:
            raise InitGone("The workspace's first process went away.")
        self._received += data

    def _frame(self) -> dict | None:
        """The next answer that has arrived whole; exits on the way are put aside."""
        while len(self._received) >= 4:
            (length,) = struct.unpack_from(">I", self._received)
            if len(self._received) < 4 + length:
                return None
            message = json.loads(bytes(self._received[4 : 4 + length]))
            del self._received[: 4 + length]
            if message.get("event") != "exit":
                return message
            self.exits.append((message["pid"], message["status"]))
        return None

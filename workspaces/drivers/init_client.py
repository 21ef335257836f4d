"""Client of a Run's init, for processes on the host; the protocol is described in `init/protocol.py`."""

import array
import json
import os
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .base import DriverError
from .init.protocol import MAX_FRAME, PROTOCOL

# The peer is untrusted: an init in a workspace, or the bridge of a guest. So what it sends is bounded.
MAX_EXITS = 10_000  # exit events not yet taken by the caller
MAX_FDS = 16
MAX_REFUSALS = 100  # told of one program
MAX_SIZES = 10_000  # changes of a terminal's size
ADOPT_TIMEOUT_S = 60.0  # a program that is not adopted is ended

NONSENSE = "The workspace's init process sent an invalid response."


class InitGone(DriverError):
    """The init does not answer or closed the connection: its Run has ended or is ending."""


class InitRefused(DriverError):
    """The init answered with an error."""


@contextmanager
def short_address(path: Path) -> Iterator[str]:
    """Yield a name for the unix socket `path` that fits into the 107 bytes of `sun_path`."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


@dataclass(frozen=True)
class Started:
    """A started program. `fd` is the pty's master or the output's read end; None if the caller passed descriptors."""

    pid: int  # in the init's pid namespace
    fd: int | None


@dataclass(frozen=True)
class Kept:
    """The output of a program so far, as its pod has kept it: the bytes `start` to `total` come first."""

    start: int
    total: int
    sizes: tuple[tuple[int, int, int], ...]  # (offset, cols, rows) of each change of the terminal's size

    @classmethod
    def of(cls, said: object) -> "Kept | None":
        """Return what an untrusted peer says; None if that makes no sense."""
        try:
            start, total = said["start"], said["total"]
            sizes = tuple((offset, cols, rows) for offset, cols, rows in said["sizes"][-MAX_SIZES:])
            numbers = (start, total, *(number for size in sizes for number in size))
            if not all(isinstance(number, int) for number in numbers):
                return None
            within = 0 <= start <= total and all(1 <= side <= 1000 for _, *sides in sizes for side in sides)
        except (KeyError, TypeError, ValueError):
            return None
        return cls(start, total, sizes) if within and list(sizes) == sorted(sizes, key=lambda size: size[0]) else None


class InitClient:
    """A blocking connection with a timeout for each answer. Exit events are collected in `exits` as (pid, status).

    `greeted=False` does not wait for the hello, for requests that the bridge of a guest answers by itself. `lead` as in
    `Address.lead`: the init refuses the requests of one who leads the workspace no more.
    """

    def __init__(self, path: str | Path, timeout_s: float = 10.0, *, greeted: bool = True, lead: Sequence = ()):
        self._lead = {"lead": list(lead)} if lead else {}
        self.exits: deque[tuple[int, int]] = deque()
        self.blocked: dict[int, list[dict]] = {}  # pid → what was refused to a program in a ring, once it has ended
        self._received = bytearray()
        self._fds: list[int] = []
        self._last_id = 0
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._sock.settimeout(timeout_s)
        try:
            with short_address(Path(path)) as address:
                self._sock.connect(address)
            self.hello = self._next(self._deadline()) if greeted else {"protocol": PROTOCOL}
        except OSError as error:
            self.close()
            raise InitGone("The workspace's programs can't be reached: its init process does not answer.") from error
        except InitGone:
            self.close()
            raise
        self._sock.settimeout(timeout_s)
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
        """Send a request and return its answer; raise InitRefused with the init's error, InitGone if it is lost."""
        self._last_id += 1
        body = json.dumps({"id": self._last_id, "op": op, **self._lead, **fields}).encode()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        timeout_before = self._sock.gettimeout()
        if timeout_s is not None:
            self._sock.settimeout(timeout_s)
        try:
            frame = struct.pack(">I", len(body)) + body
            sent = self._sock.sendmsg([frame], rights)
            self._sock.sendall(frame[sent:])
            until = self._deadline()
            while True:
                answer = self._next(until)
                if answer.get("id") == self._last_id:
                    break
            # Take exit events that came with the answer: they are buffered here, so the socket is not readable again.
            self._take_exits()
        except OSError as error:
            raise InitGone("The workspace's init process ended.") from error
        finally:
            self._sock.settimeout(timeout_before)
        if "error" in answer:
            raise InitRefused(answer["error"])
        return answer

    def start(self, argv: Sequence[str], *, env: Mapping[str, str], cwd: str, stdio: str, **fields) -> Started:
        """Start a program; names that are not UTF-8 are passed as `os.fsdecode` strings."""
        answer = self.request("start", argv=list(argv), env=dict(env), cwd=cwd, stdio=stdio, **fields)
        return Started(answer["pid"], self._fds.pop(0) if answer["fds"] else None)

    def adopt(self, program: Started, before: "InitClient", *, stdio: str, cols: int, rows: int) -> Started:
        """Take over a program started over the connection `before`, which ended with a pause that saved memory."""
        self._last_id = before._last_id  # an answer to a request of it may still arrive
        answer = self.request("adopt", pid=program.pid, stdio=stdio, cols=cols, rows=rows)
        return Started(program.pid, self._fds.pop(0) if answer["fds"] else None)

    def adopt_kept(self, name: str, *, stdio: str, cols: int, rows: int) -> tuple[Started, Kept]:
        """Take over a program that another host's client started with `kept_as=name`, with all that it has printed."""
        # An answer to a request of the former client may still arrive, and has a lower number.
        self._last_id = max(self._last_id, self._lead.get("lead", ("", 0))[1] << 32)
        # A pod of an earlier version knows programs by their numbers alone, and none has this one.
        fields = {"stdio": stdio, "cols": cols, "rows": rows}
        answer = self.request("adopt", timeout_s=ADOPT_TIMEOUT_S, kept_as=name, pid=0, **fields)
        kept = Kept.of(answer.get("kept"))
        if kept is None or not isinstance(answer.get("pid"), int) or not self._fds:
            raise InitGone(NONSENSE)
        return Started(answer["pid"], self._fds.pop(0)), kept

    def dial(self, port: int) -> socket.socket:
        """Return a connection to a port on the guest's loopback; only the bridge of a microVM supports this."""
        answer = self.request("dial", port=port)
        if not answer["fds"]:
            raise InitGone("The workspace's init process ended.")
        return socket.socket(fileno=self._fds.pop(0))

    def read_exits(self) -> None:
        """Read pending exit events without blocking; raise InitGone at the end of the connection."""
        timeout_before = self._sock.gettimeout()
        self._sock.settimeout(0)
        try:
            self._receive()
        except BlockingIOError:
            pass
        except OSError as error:
            raise InitGone("The workspace's init process ended.") from error
        finally:
            self._sock.settimeout(timeout_before)
        self._take_exits()

    def _take_exits(self) -> None:
        while self._frame() is not None:
            pass

    def _deadline(self) -> float:
        """Return the deadline for a complete answer; other frames that arrive meanwhile do not extend it."""
        return time.monotonic() + self._sock.gettimeout()

    def _next(self, until: float) -> dict:
        while True:
            message = self._frame()
            if message is not None:
                return message
            if (left := until - time.monotonic()) <= 0:
                raise TimeoutError("no answer in time")
            self._sock.settimeout(left)
            self._receive()

    def _receive(self) -> None:
        room = socket.CMSG_SPACE(16 * array.array("i").itemsize)
        data, rights, _flags, _address = self._sock.recvmsg(1 << 16, room, socket.MSG_CMSG_CLOEXEC)
        for level, kind, payload in rights:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds = array.array("i")
                fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
                self._fds.extend(fds)
        if len(self._fds) > MAX_FDS:
            raise InitGone(NONSENSE)
        if not data:
            raise InitGone("The workspace's init process ended.")
        self._received += data

    def _frame(self) -> dict | None:
        """Return the next complete answer, or None; collect exit events before it in `exits`."""
        while len(self._received) >= 4:
            (length,) = struct.unpack_from(">I", self._received)
            if length > MAX_FRAME:
                raise InitGone(NONSENSE)
            if len(self._received) < 4 + length:
                return None
            message = _read(bytes(self._received[4 : 4 + length]))
            del self._received[: 4 + length]
            if message.get("event") != "exit":
                return message
            self.exits.append((message["pid"], message["status"]))
            if blocked := refusals(message.get("blocked")):
                self.blocked[message["pid"]] = blocked
            if len(self.exits) > MAX_EXITS:
                raise InitGone(NONSENSE)
        return None


def refusals(said: object) -> list[dict]:
    """Return the well-formed refusals of a list that an untrusted peer sent."""
    found = said[:MAX_REFUSALS] if isinstance(said, list) else []
    pairs = [(entry.get("kind"), entry.get("what")) for entry in found if isinstance(entry, dict)]
    texts = [(kind, what) for kind, what in pairs if isinstance(kind, str) and isinstance(what, str)]
    return [{"kind": kind[:20], "what": what[:1000]} for kind, what in texts]


def _read(frame: bytes) -> dict:
    """Decode a frame; raise InitGone if it is malformed."""
    try:
        message = json.loads(frame)
    except (ValueError, RecursionError):
        raise InitGone(NONSENSE) from None
    numbers = ("pid", "status") if isinstance(message, dict) and message.get("event") == "exit" else ()
    if not isinstance(message, dict) or not all(isinstance(message.get(name), int) for name in numbers):
        raise InitGone(NONSENSE)
    return message

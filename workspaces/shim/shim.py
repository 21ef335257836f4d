"""The shim: runs one program of a Run, records its output and ends it; outlives web and runner.

Viewers and the runner talk to it through `socket` in its folder (viewers.py).
"""

import asyncio
import fcntl
import json
import os
import struct
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

from dashboard.files.atomic_write import replace_file
from workspaces.drivers import cgroups
from workspaces.drivers.base import DriverError
from workspaces.drivers.init_client import InitClient, InitGone, InitRefused, Started

from .adopting import adopt, seconds_since
from .record import REDACTION_DELAY_S, Exit, Handed, claim, identity, now, read_spec, write_exit
from .recording import Recorder
from .suspend import Suspension
from .viewers import Viewers

TERM_GRACE_S = 5.0
OUTPUT_AFTER_EXIT_S = 2.0  # how long output is read after the program's exit while another process holds the pipe open
CHUNK_BYTES = 1 << 18
READER_POLL_S = 0.02  # between two checks whether a viewer has read what would be dropped
PR_SET_DUMPABLE = 4


class Shim:
    """One program from its start to its exit.json."""

    def __init__(self, folder: Path, handed: Handed, notify: Callable[[], None] = lambda: None):
        self.folder = folder
        self.notify = notify  # notifies the process that started the shim of a change in the folder
        self.spec = read_spec(folder)
        self.handed = handed
        self.redactor = _redactor(handed)
        ago = seconds_since(self.spec.began_at)
        self.recorder = Recorder(folder, self.spec.cap_bytes, ago)
        self.init: InitClient | None = None
        self.program = None
        self.cause = ""  # timeout or cancelled, once the end was requested
        self.status: int | None = None  # exit status, or the negative signal number
        self.lost = False
        self.viewers = Viewers(self)
        self.suspension = Suspension(self)
        self.timeout: asyncio.TimerHandle | None = None
        self.size = (self.spec.cols, self.spec.rows)
        self.flushing: asyncio.TimerHandle | None = None
        self.output_open = True
        self.done = asyncio.Event()  # the program has ended or is lost
        self.finished = asyncio.Event()  # exit.json is written
        self.started_at = self.spec.began_at or now()
        self.began = time.monotonic() - ago
        self.oom_kills_before = cgroups.oom_kills(self.spec.address.oom_file)

    async def run(self) -> None:
        await self.viewers.open(self.folder)
        failure = self.start()
        self.notify()
        if failure is None:
            self.watch(self.seconds_left())
            await self.done.wait()
        await self.finish(failure)
        self.viewers.close(self.folder)

    def start(self) -> str | None:
        """Start the program. Return None, or the reason if it certainly did not start."""
        spec = self.spec
        try:
            self.init = InitClient(spec.address.socket, lead=spec.address.lead)
            # Before the start, so that a missing shim.json (in the same boot) proves that nothing ran.
            _write(self.folder / "shim.json", identity())
            self.program = adopt(self) if spec.began_at else self.start_new()
        except (OSError, DriverError) as error:
            # Lost: the start was requested and not answered, or a program that ran is not adopted.
            self.lost = bool(spec.began_at) or (self.init is not None and not isinstance(error, (OSError, InitRefused)))
            return "" if self.lost else _why_not_started(error)
        if spec.pty and not spec.began_at:
            self.recorder.resized(spec.cols, spec.rows)
        try:
            _write(self.folder / "shim.json", identity() | {"program_pid": self.program.pid})
        except OSError:
            pass  # a full disk; the program runs, and `status` still returns its pid
        return None

    def start_new(self) -> Started:
        spec = self.spec
        env = dict(spec.address.env) | ({"TERM": "xterm-256color"} if spec.pty else {})
        env |= dict(self.handed.env) | dict(spec.env)
        return self.init.start(
            spec.argv,
            env=env,
            cwd=spec.cwd or spec.address.cwd,
            stdio="pty" if spec.pty else "pipe",
            cols=spec.cols,
            rows=spec.rows,
            **({} if spec.ring is None else {"ring": dict(spec.ring)}),
            **({"kept_as": spec.kept_as} if spec.kept_as else {}),
        )

    def seconds_left(self) -> float | None:
        """Return how long the program may still run, None if there is no limit."""
        limit = self.spec.timeout_s
        return None if limit is None else max(0.0, limit - (time.monotonic() - self.began))

    def watch(self, timeout_s: float | None) -> None:
        loop = asyncio.get_running_loop()
        if self.program.fd is not None:
            os.set_blocking(self.program.fd, False)
            loop.add_reader(self.program.fd, self.read_output)
        self.output_open = self.program.fd is not None
        loop.add_reader(self.init.fileno(), self.read_init)
        if timeout_s is not None:
            self.timeout = loop.call_later(timeout_s, self.end, "timeout")
        self.read_init()  # the program may have ended before the reader was added

    def stop_clock(self) -> float | None:
        """Stop the timeout and return the seconds left, None if there is no timeout."""
        if self.timeout is None:
            return None
        self.timeout.cancel()
        left = self.timeout.when() - asyncio.get_running_loop().time()
        self.timeout = None
        return max(0.0, left)

    # What the program does

    def read_output(self) -> None:
        if self.viewers.has_reader_before(self.recorder.about_to_drop(CHUNK_BYTES)):
            loop = asyncio.get_running_loop()
            loop.remove_reader(self.program.fd)
            loop.call_later(READER_POLL_S, self.resume_reading)
            return
        # A pty returns at most 4 KiB a read: read what there is before waking viewers.
        before = self.recorder.total
        while (data := self.read_once()) and self.recorder.total - before < CHUNK_BYTES // 2:
            pass
        if self.recorder.total > before:
            self.viewers.wake()
        if data == b"":
            self.close_output()
            if self.status is not None:
                self.done.set()

    def read_once(self) -> bytes | None:
        """Read once and record. Return the bytes read, None if there are none now, b"" at the end."""
        try:
            data = os.read(self.program.fd, CHUNK_BYTES // 2)
        except BlockingIOError:
            return None
        except OSError:
            return b""  # EIO: the last program on the pty has exited
        if data:
            self.record(data)
        return data

    def record(self, data: bytes) -> None:
        """Record output without secret values; bytes that may begin one are held back for REDACTION_DELAY_S."""
        if self.redactor is None:
            self.recorder.write(data)
            return
        self.recorder.write(self.redactor.feed(data))
        if self.redactor.waits and self.flushing is None:
            self.flushing = asyncio.get_running_loop().call_later(REDACTION_DELAY_S, self.flush_redactor)

    def flush_redactor(self) -> None:
        self.flushing = None
        if self.output_open and self.redactor.waits:
            self.recorder.write(self.redactor.flush())
            self.viewers.wake()

    def resume_reading(self) -> None:
        if self.output_open:
            asyncio.get_running_loop().add_reader(self.program.fd, self.read_output)

    def close_output(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self.program.fd)
        loop.remove_writer(self.program.fd)
        self.output_open = False

    def read_init(self) -> None:
        try:
            self.init.read_exits()
        except InitGone:
            self.init_gone()
        self.take_exits()

    def init_gone(self) -> None:
        self.take_exits()
        asyncio.get_running_loop().remove_reader(self.init.fileno())
        if self.status is None and self.suspension.begin():
            return
        self.lost = self.status is None
        self.done.set()

    def take_exits(self) -> None:
        while self.init.exits:
            pid, status = self.init.exits.popleft()
            if pid == self.program.pid:
                self.status = status
                if self.output_open:
                    asyncio.get_running_loop().call_later(OUTPUT_AFTER_EXIT_S, self.done.set)
                else:
                    self.done.set()

    # Requests

    def end(self, cause: str) -> None:
        """End the program and all it started: SIGTERM now, SIGKILL after TERM_GRACE_S."""
        if self.done.is_set() or self.cause:
            return
        self.cause = cause
        self.send_end()

    def send_end(self) -> None:
        if not self.suspension.suspended:  # otherwise after it is resumed
            self.request_init("end", grace_s=TERM_GRACE_S)

    def request_init(self, op: str, **fields) -> None:
        if self.suspension.suspended:
            raise ValueError("its workspace is paused")
        try:
            self.init.request(op, pid=self.program.pid, **fields)
        except InitGone:
            self.init_gone()
        self.take_exits()

    def watch_input(self, waiting: bool) -> None:
        loop = asyncio.get_running_loop()
        if not self.output_open:
            return
        if waiting and not self.suspension.pending:
            loop.add_writer(self.program.fd, lambda: self.viewers.keyboard.flush(self.program.fd))
        else:
            loop.remove_writer(self.program.fd)

    def resize(self, cols: int, rows: int) -> None:
        if not (1 <= cols <= 1000 and 1 <= rows <= 1000):
            raise ValueError("a terminal has 1 to 1000 columns and rows")
        if self.program is None:
            raise ValueError("it does not run")
        self.size = (cols, rows)
        if self.output_open:
            fcntl.ioctl(self.program.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        self.recorder.resized(cols, rows)
        self.viewers.wake()

    # The end

    async def finish(self, failure: str | None) -> None:
        if self.program is not None and self.output_open:
            self.drain_output()
            self.close_output()
        if self.redactor is not None:
            self.recorder.write(self.redactor.flush())
        self.recorder.close()
        end = self.outcome(failure)
        while True:
            try:
                write_exit(self.folder, end)
                break
            except FileNotFoundError:
                break  # its workspace was deleted, and nobody will ask
            except OSError:
                await asyncio.sleep(1.0)  # a full disk: retry until there is space
        self.finished.set()
        self.notify()
        self.viewers.wake()
        await asyncio.sleep(0.01)  # lets waiting viewers get their answer before the process exits

    def drain_output(self) -> None:
        """Record what is in the pipe now. Later output of leftover processes is not kept."""
        until = self.recorder.total + 4 * CHUNK_BYTES
        while self.recorder.total < until:
            try:
                data = os.read(self.program.fd, CHUNK_BYTES)
            except OSError:
                return
            if not data:
                return
            self.record(data)

    def outcome(self, failure: str | None) -> Exit:
        oom_kills = cgroups.oom_kills(self.spec.address.oom_file) - self.oom_kills_before
        if failure:
            reason = "not_started"
        elif self.suspension.discarded:
            reason = "forgotten"
        elif self.cause:
            reason = self.cause
        elif oom_kills > 0 and (self.lost or self.status == -9):
            reason = "oom"
        else:
            reason = "lost" if self.lost else "exited"
        return Exit(
            reason=reason,
            exit_status=self.status if self.status is not None and self.status >= 0 else None,
            signal=-self.status if self.status is not None and self.status < 0 else None,
            started_at=self.started_at,
            ended_at=now(),
            seconds=round(time.monotonic() - self.began - self.suspension.seconds(), 3),
            output_bytes=self.recorder.total,
            truncated=self.recorder.truncated,
            oom_kills=max(0, oom_kills),
            leftovers=self.leftovers(),
            error=failure or self.suspension.discarded,
            held=self.spec.ring is not None and self.program is not None,
            blocked=tuple(self.init.blocked.get(self.program.pid, ())) if self.program is not None else (),
        )

    def leftovers(self) -> tuple[str, ...]:
        if self.program is None or self.lost or self.suspension.suspended:
            return ()
        try:
            found = self.init.request("processes")["processes"]
        except DriverError:
            return ()
        mine = [entry for entry in found if entry["session"] == self.program.pid]
        return tuple(f"{entry['pid']} {self.redact(' '.join(entry['argv']))}"[:200] for entry in mine[:20])

    def redact(self, text: str) -> str:
        redactor = _redactor(self.handed)  # a second one: the output's holds state
        return os.fsdecode(redactor.feed(os.fsencode(text)) + redactor.flush()) if redactor else text


def _write(path: Path, content: dict) -> None:
    """Replace a file atomically but without fsync; see `read_status`."""
    replace_file(path, json.dumps(content).encode(), durable=False)


def _why_not_started(error: OSError | DriverError) -> str:
    return f"its folder cannot be written: {error.strerror}" if isinstance(error, OSError) else str(error)


def _redactor(handed: Handed):
    """Return a Redactor, or None if there is nothing to hide; most programs then skip its slow import."""
    if not handed.hidden:
        return None
    if handed.packages not in sys.path:
        sys.path.append(handed.packages)
    from .redact import Redactor  # imported only when needed, see the docstring

    return Redactor(handed.hidden)


def _hide_memory() -> None:
    """Clear PR_SET_DUMPABLE: no other process of this user may read the memory, and a crash writes no core file."""
    import ctypes  # slow to import, and only needed with secrets

    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this process cannot be protected from others of its user")


def main(folder: Path, handed: Handed, notify: Callable[[], None]) -> None:
    if handed.env or handed.hidden:
        _hide_memory()
    if not claim(folder, by="shim"):
        return  # it runs, has run, or a recovery decided that it never will
    asyncio.run(Shim(folder, handed, notify).run())

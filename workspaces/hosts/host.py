"""The host process: runs one program of a Run, records what it prints, serves whoever watches; outlives web and runner.

It listens on `socket` in its folder. Lines of JSON, one answer for each request, in order; a viewer reads the recording
itself and asks here only to be woken, so that a slow one costs nothing.

  {op: wait, offset}        answered when there is output behind offset, or at the end: {total, ended}
  {op: input, data}         base64, to a terminal              {op: resize, cols, rows}
  {op: signal, signal}      to the program and all it started  {op: cancel}   SIGTERM, after 5 s SIGKILL
  {op: status}              {protocol, total, ended, program_pid, asleep}

Since protocol 2 (an older host ignores the fields and refuses the operations; see keyboard.py for what they mean):

  {op: wait, …, sizes}      also answered when the terminal has had more sizes than these
  {op: join, typist}        {typed, live_from}; afterwards {op: input, …, at} → {typed}, and resize is for whoever has
                            the word
  {op: reply, data}         {taken}
  {op: reading, offset}     a viewer that reads on: the program is made to wait before what it is about to read is
                            dropped, as long as it says so every READS_ON_S

Since protocol 3: what sleep.py answers, for a Run whose driver keeps the memory of its programs.
"""

import asyncio
import base64
import fcntl
import json
import os
import socket
import struct
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path

from ..drivers import cgroups
from ..drivers.base import DriverError
from ..drivers.initclient import InitClient, InitGone, InitRefused, short_address
from .folder import PROTOCOL, Exit, Handed, claim, identity, now, read_spec, write_exit
from .keyboard import Keyboard, Seat
from .recording import Recorder
from .sleep import OPS as SLEEP_OPS
from .sleep import Sleep

GRACE_S = 5.0
AFTER_EXIT_S = 2.0  # how long output is read after the program ended, if something it started holds the pipe
CHUNK = 1 << 18
MAX_LINE = 4 << 20
# A viewer reads on as long as it says within this time that it took another client.REPORT_BYTES, so 128 KiB/s. A
# program waits for it before bytes that it is about to read are dropped, and for none that is slower or stalls.
READS_ON_S = 4.0
HOLD_TICK_S = 0.02
LOOKS_S = 2.0  # between two looks whether a viewer that waits is still there
BEGINNING_S = 0.25  # how long what may be the beginning of a secret waits for the rest
PR_SET_DUMPABLE = 4


class Host:
    """One program from its start to its exit.json."""

    def __init__(self, folder: Path, handed: Handed):
        self.folder = folder
        self.spec = read_spec(folder)
        self.handed = handed
        self.redactor = _redactor(handed)
        self.recorder = Recorder(folder, self.spec.cap_bytes)
        self.init: InitClient | None = None
        self.program = None
        self.cause = ""  # timeout or cancelled, once somebody asked for the end
        self.status: int | None = None  # exit status, or minus a signal
        self.lost = False
        self.keyboard = Keyboard(self.watch_input)
        self.sleep = Sleep(self)
        self.timeout: asyncio.TimerHandle | None = None
        self.size = (self.spec.cols, self.spec.rows)
        self.readers: dict[Seat, tuple[int, float]] = {}  # where they are, and when they said so
        self.flushing: asyncio.TimerHandle | None = None
        self.news = asyncio.Event()
        self.output_open = True
        self.done = asyncio.Event()  # nothing more will happen
        self.finished = asyncio.Event()  # and that is on disk
        self.started_at = now()
        self.clock = time.monotonic()
        self.oom_before = cgroups.oom_kills(self.spec.address.oom_file)

    async def run(self) -> None:
        server = await asyncio.start_unix_server(self.serve, sock=_listen(self.folder), limit=MAX_LINE)
        failure = self.start()
        if failure is None:
            self.listen(self.spec.timeout_s)
            await self.done.wait()
        await self.finish(failure)
        server.close()
        (self.folder / "socket").unlink(missing_ok=True)

    def start(self) -> str | None:
        """Start the program; what is wrong if it could not be, and did not, start."""
        spec = self.spec
        try:
            self.init = InitClient(spec.address.socket)
            # Before the start: whoever finds no host.json (in the same boot) knows that nothing ran.
            _write(self.folder / "host.json", identity())
            env = dict(spec.address.env) | ({"TERM": "xterm-256color"} if spec.pty else {})
            env |= dict(self.handed.env) | dict(spec.env)
            self.program = self.init.start(
                spec.argv,
                env=env,
                cwd=spec.cwd or spec.address.cwd,
                stdio="pty" if spec.pty else "pipe",
                cols=spec.cols,
                rows=spec.rows,
            )
        except InitRefused as refused:
            return str(refused)
        except OSError as error:
            return f"its folder cannot be written: {error.strerror}"
        except DriverError as error:
            if self.init is None:
                return str(error)
            self.lost = True  # the start was asked for and no answer came
            return ""
        if spec.pty:
            self.recorder.resized(spec.cols, spec.rows)
        try:
            _write(self.folder / "host.json", identity() | {"program_pid": self.program.pid})
        except OSError:
            pass  # a full disk; the program runs, and its pid is known by asking
        return None

    def listen(self, timeout_s: float | None) -> None:
        loop = asyncio.get_running_loop()
        if self.program.fd is not None:
            os.set_blocking(self.program.fd, False)
            loop.add_reader(self.program.fd, self.read_output)
        self.output_open = self.program.fd is not None
        loop.add_reader(self.init.fileno(), self.read_init)
        if timeout_s is not None:
            self.timeout = loop.call_later(timeout_s, self.end, "timeout")
        self.read_init()  # it may have ended before we listened

    def stop_clock(self) -> float | None:
        """Seconds that are left of the timeout, which does not go on by itself any more."""
        if self.timeout is None:
            return None
        self.timeout.cancel()
        left = self.timeout.when() - asyncio.get_running_loop().time()
        self.timeout = None
        return max(0.0, left)

    # What the program does

    def read_output(self) -> None:
        if self.must_hold():
            loop = asyncio.get_running_loop()
            loop.remove_reader(self.program.fd)
            loop.call_later(HOLD_TICK_S, self.read_on)
            return
        # A pty gives 4 KiB at a time: take what there is before anybody is woken.
        before = self.recorder.total
        while (data := self.read_once()) and self.recorder.total - before < CHUNK // 2:
            pass
        if self.recorder.total > before:
            self.wake()
        if data == b"":
            self.close_output()
            if self.status is not None:
                self.done.set()

    def read_once(self) -> bytes | None:
        """Record what can be read now: None when there is nothing, b"" at the end."""
        try:
            data = os.read(self.program.fd, CHUNK // 2)
        except BlockingIOError:
            return None
        except OSError:
            return b""  # a pty whose last program is gone says EIO
        if data:
            self.record(data)
        return data

    def record(self, data: bytes) -> None:
        """Without the values of secrets; what may be the beginning of one waits a moment for the rest."""
        if self.redactor is None:
            self.recorder.write(data)
            return
        self.recorder.write(self.redactor.feed(data))
        if self.redactor.waits and self.flushing is None:
            self.flushing = asyncio.get_running_loop().call_later(BEGINNING_S, self.flush_redactor)

    def flush_redactor(self) -> None:
        self.flushing = None
        if self.output_open and self.redactor.waits:
            self.recorder.write(self.redactor.flush())
            self.wake()

    def must_hold(self) -> bool:
        """Would what comes next push out bytes that a viewer is about to read?"""
        about_to_go = self.recorder.about_to_drop(CHUNK)
        reads_on = time.monotonic() - READS_ON_S
        return any(at < about_to_go and said > reads_on for at, said in self.readers.values())

    def read_on(self) -> None:
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
        if self.status is None and self.sleep.begin():
            return
        self.lost = self.status is None
        self.done.set()

    def take_exits(self) -> None:
        while self.init.exits:
            pid, status = self.init.exits.popleft()
            if pid == self.program.pid:
                self.status = status
                if self.output_open:
                    asyncio.get_running_loop().call_later(AFTER_EXIT_S, self.done.set)
                else:
                    self.done.set()

    # What people ask for

    def end(self, cause: str) -> None:
        """End the program and all it started: asked now, killed after the grace."""
        if self.done.is_set() or self.cause:
            return
        self.cause = cause
        self.ask_for_end()

    def ask_for_end(self) -> None:
        if not self.sleep.asleep:  # else when it wakes
            self.ask_init("end", grace_s=GRACE_S)

    def ask_init(self, op: str, **fields) -> None:
        if self.sleep.asleep:
            raise ValueError("its workspace is asleep")
        try:
            self.init.request(op, pid=self.program.pid, **fields)
        except InitGone:
            self.init_gone()
        self.take_exits()

    def watch_input(self, waiting: bool) -> None:
        loop = asyncio.get_running_loop()
        if not self.output_open:
            return
        if waiting and not self.sleep.dozing:
            loop.add_writer(self.program.fd, lambda: self.keyboard.flush(self.program.fd))
        else:
            loop.remove_writer(self.program.fd)

    def typed(self, request: dict) -> bytes:
        if not self.spec.pty or self.program is None:
            raise ValueError("this program takes no input")
        return base64.b64decode(request["data"], validate=True)

    def resize(self, cols: int, rows: int) -> None:
        if not (1 <= cols <= 1000 and 1 <= rows <= 1000):
            raise ValueError("a terminal has 1 to 1000 columns and rows")
        if self.program is None:
            raise ValueError("it does not run")
        self.size = (cols, rows)
        if self.output_open:
            fcntl.ioctl(self.program.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        self.recorder.resized(cols, rows)
        self.wake()

    # Viewers

    def wake(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seat = Seat()
        seat.left = reader.at_eof
        try:
            while line := await reader.readline():
                try:
                    answer = await self.answer(json.loads(line), seat)
                except (ValueError, KeyError, TypeError, OSError, DriverError) as error:
                    answer = {"error": str(error)}
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError):
            pass  # it left, or sent a line without end
        finally:
            self.readers.pop(seat, None)
            self.keyboard.leave(seat, self.recorder.total)
            writer.close()

    async def answer(self, request: dict, seat: Seat) -> dict:
        op, told = request["op"], {}
        if op == "wait":
            await self.until_news(int(request["offset"]), request.get("sizes"), seat)
        elif op == "input":
            told = {"typed": self.keyboard.type(seat, self.typed(request), request.get("at"))}
        elif op == "resize":
            if self.keyboard.has_word(seat) or not seat.typist:
                self.resize(int(request["cols"]), int(request["rows"]))
        elif op == "join":
            told = self.keyboard.join(seat, request["typist"], self.recorder.total)
        elif op == "reply":
            told = {"taken": self.keyboard.reply(seat, self.typed(request))}
        elif op == "reading":
            self.readers[seat] = (int(request["offset"]), time.monotonic())
        elif op == "signal":
            self.ask_init("signal", signal=int(request["signal"]))
        elif op == "cancel":
            self.end("cancelled")
        elif op in SLEEP_OPS:
            self.sleep.answer(request)
        elif op != "status":
            raise ValueError(f"unknown operation {op!r}")
        program = self.program.pid if self.program else None
        return told | {
            "protocol": PROTOCOL,
            "total": self.recorder.total,
            "ended": self.finished.is_set(),
            "program_pid": program,
            "asleep": self.sleep.asleep,
        }

    async def until_news(self, offset: int, sizes: int | None, seat: Seat) -> None:
        self.readers.pop(seat, None)  # it has read all there is
        while self.recorder.total <= offset and not self.finished.is_set():
            if sizes is not None and self.recorder.sizes > sizes:
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self.news.wait(), LOOKS_S)
            if seat.left():
                raise ConnectionResetError  # its connection would stay open for as long as the program is silent
        # From here on there is something for it, and a fast program could push that out before it has begun to read.
        self.readers[seat] = (offset, time.monotonic())

    # The end

    async def finish(self, failure: str | None) -> None:
        if self.program is not None and self.output_open:
            self.read_the_rest()
            self.close_output()
        if self.redactor is not None:
            self.recorder.write(self.redactor.flush())
        self.recorder.close()
        end = self.outcome(failure)
        while True:
            try:
                write_exit(self.folder, end)
                break
            except OSError:
                await asyncio.sleep(1.0)  # a full disk: the outcome waits in memory for room
        self.finished.set()
        self.wake()
        await asyncio.sleep(0.01)  # those who waited hear it before we are gone

    def read_the_rest(self) -> None:
        """What is in the pipe now; what leftovers print later nobody promised to keep."""
        until = self.recorder.total + 4 * CHUNK
        while self.recorder.total < until:
            try:
                data = os.read(self.program.fd, CHUNK)
            except OSError:
                return
            if not data:
                return
            self.record(data)

    def outcome(self, failure: str | None) -> Exit:
        oom_kills = cgroups.oom_kills(self.spec.address.oom_file) - self.oom_before
        if failure:
            reason = "not_started"
        elif self.sleep.forgotten:
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
            seconds=round(time.monotonic() - self.clock - self.sleep.seconds(), 3),
            output_bytes=self.recorder.total,
            truncated=self.recorder.truncated,
            oom_kills=max(0, oom_kills),
            leftovers=self.leftovers(),
            error=failure or self.sleep.forgotten,
        )

    def leftovers(self) -> tuple[str, ...]:
        if self.program is None or self.lost or self.sleep.asleep:
            return ()
        try:
            found = self.init.request("processes")["processes"]
        except DriverError:
            return ()
        mine = [entry for entry in found if entry["session"] == self.program.pid]
        return tuple(f"{entry['pid']} {self.clean(' '.join(entry['argv']))}"[:200] for entry in mine[:20])

    def clean(self, text: str) -> str:
        redactor = _redactor(self.handed)  # one of its own: the output's is in the middle of it
        return os.fsdecode(redactor.feed(os.fsencode(text)) + redactor.flush()) if redactor else text


def _listen(folder: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    with short_address(folder / "socket") as address:
        listener.bind(address)
    os.chmod(folder / "socket", 0o600)
    return listener


def _write(path: Path, content: dict) -> None:
    """Whole or not at all, but not forced to disk: see `read_status`."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(json.dumps(content))
    os.replace(fresh, path)


def _redactor(handed: Handed):
    """None where nothing is to be hidden: most programs, which shall not wait for what that needs."""
    if not handed.hidden:
        return None
    if handed.packages not in sys.path:
        sys.path.append(handed.packages)
    from .redacting import Redactor  # see above

    return Redactor(handed.hidden)


def _hide_memory() -> None:
    """No other process of our user may read what we hold, and no crash writes it to disk."""
    import ctypes  # slow to import, and only needed with secrets

    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this process cannot be protected from others of its user")


def main(folder: Path, handed: Handed) -> None:
    if handed.env or handed.hidden:
        _hide_memory()
    if not claim(folder, by="host"):
        return  # it runs, or ran, or was proven never to run
    asyncio.run(Host(folder, handed).run())

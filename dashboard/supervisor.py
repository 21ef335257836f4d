"""`make up`: starts web, runner and queue, restarts what ends, kills what hangs, and ends with all of them.

Each part is the leader of a process group of its own. Nothing of a group outlives the supervisor: stopped, it ends
them; killed, the warden does; and should both be killed at once, the kernel ends at least the leaders. Sandboxes and
host processes are in sessions of their own and stay, for the next runner to adopt.
"""

import asyncio
import ctypes
import fcntl
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings
from django.db import connections

from dashboard import prepare, tasks, warden
from dashboard.prepare import Refused

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # seconds before a part starts again
HEALTHY_AFTER = 60.0  # seconds; whoever ran that long starts again at once
START_PATIENCE = 60.0  # seconds of silence more before the first sign of life: a busy machine imports slowly
STOP_PATIENCE = 8.0  # seconds between "stop" and SIGKILL
TICK = 0.2
ASK_EVERY = 2.0  # seconds between two looks at a part's sign of life
LINE_BYTES = 16 * 1024  # a log line longer than this is shown in pieces

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


def _die_with_parent():
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def _allow_many_files():
    """Each waiting agent holds a socket and a database file or two: the usual 1,024 would be used up by 500 of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def say(text: str, name: str = "up"):
    try:
        print(f"{name:<6} | {text}", file=sys.stderr, flush=True)
    except OSError:
        pass  # the terminal is gone; the parts are not


@dataclass
class Part:
    """One of the processes: how it starts, and how it shows that it lives."""

    name: str
    argv: list[str]
    patience: float  # seconds of silence after which it is killed
    ask: Callable[["Part"], Awaitable[None]]  # looks for a sign of life and calls `heard`
    pass_fds: tuple[int, ...] = ()
    process: subprocess.Popen | None = None
    last_heard: float = 0.0
    allowance: float = 0.0  # more silence than usual, announced by the part itself
    beat_seen: tuple = ()
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    def heard(self, allowance: float = 0.0):
        self.last_heard, self.allowance = time.monotonic(), allowance
        self.ready.set()

    def silence(self) -> float:
        return time.monotonic() - self.last_heard - self.allowance

    def has_ended(self) -> bool:
        """Without reaping it: as long as the leader is a zombie, its group's number belongs to nobody else."""
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


async def ask_web(part: Part):
    """Any answer at all to GET /healthz counts."""
    try:
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection(*_reachable_address())
            try:
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                if (await reader.readline()).startswith(b"HTTP/1.1 "):
                    part.heard()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        pass


def _reachable_address() -> tuple[str, int]:
    """Where this host reaches the web server: a wildcard is an address to listen on, not to call."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(settings.HANDRAIL_HOST, settings.HANDRAIL_HOST)
    return host, settings.HANDRAIL_PORT


def _heartbeat_of(name: str) -> tuple:
    """When the part's heartbeat file was written, and what it holds: () for none."""
    file = settings.HANDRAIL_RUNTIME / "heartbeat" / name
    try:
        return file.stat().st_mtime_ns, file.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ()


def _look_at_file(part: Part):
    """A heartbeat is a file that changes; comparing it with itself needs no clock that agrees with ours."""
    seen = _heartbeat_of(part.name)
    if seen and seen != part.beat_seen:
        part.beat_seen = seen
        part.heard(float(seen[1]) if seen[1].isdecimal() else 0.0)


async def ask_runner(part: Part):
    _look_at_file(part)


class AskQueue:
    """Puts a task into the queue every 30 s and looks whether it went all the way round."""

    def __init__(self):
        self.asked_at = float("-inf")

    async def __call__(self, part: Part):
        _look_at_file(part)
        if time.monotonic() - self.asked_at < 30:
            return
        self.asked_at = time.monotonic()
        try:
            await asyncio.to_thread(self._ask)
        except Exception as error:  # whatever the database says: the queue cannot be blamed for it
            say(f"the queue's heartbeat could not be asked for: {error}")
            part.heard()

    def _ask(self):
        try:
            tasks.ask_for_beat()
        finally:
            connections.close_all()


class Supervisor:
    def __init__(self, parts: list[Part], lock_fd: int):
        self.parts = parts
        self.lock_fd = lock_fd
        self.stopping = asyncio.Event()
        self.hurry = asyncio.Event()  # no more patience
        self.stop_asked_at = 0.0
        self.warden: subprocess.Popen | None = None
        self._background: set[asyncio.Task] = set()

    def stop(self):
        """Asked a second time, a while later, it waits no longer. At once means one wish that arrived twice: a signal
        to make's whole group reaches us directly, and again through make."""
        if not self.stopping.is_set():
            say("stopping")
            self.stop_asked_at = time.monotonic()
            self.stopping.set()
        elif time.monotonic() - self.stop_asked_at > 1:
            self.hurry.set()

    async def run(self, started: Callable[[], None]):
        """Run until stopped; `started` is called once the web server has answered."""
        _allow_many_files()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.stop)
        self._start_warden()
        self._in_background(self._keep_warden())
        web = self.parts[0]
        keepers = [asyncio.create_task(self._keep(part)) for part in self.parts]
        waiting = asyncio.create_task(web.ready.wait())
        stopped = asyncio.create_task(self.stopping.wait())
        await asyncio.wait([waiting, stopped], return_when=asyncio.FIRST_COMPLETED)
        if waiting.done():
            started()
        await asyncio.gather(*keepers)
        for task in [waiting, stopped, *self._background]:
            task.cancel()
        self.warden.stdin.close()
        self.warden.wait()

    def _start_warden(self):
        self.warden = subprocess.Popen(
            [sys.executable, "-I", "-S", warden.__file__],
            stdin=subprocess.PIPE,
            bufsize=0,  # a line that could not be written is not kept for later
            stdout=subprocess.DEVNULL,
            pass_fds=(self.lock_fd,),  # nobody else starts here before the last group has ended
            start_new_session=True,
        )
        for part in self.parts:
            if part.process and part.process.returncode is None:
                self.warden.stdin.write(f"+{part.process.pid}\n".encode())

    def _tell_warden(self, line: str):
        try:
            self.warden.stdin.write(f"{line}\n".encode())
        except BrokenPipeError:
            pass  # its successor hears of all that run

    async def _keep_warden(self):
        while True:
            if self.warden.poll() is not None:
                say("the warden was killed; another one takes over")
                self.warden.stdin.close()
                self._start_warden()
            await asyncio.sleep(TICK)

    async def _keep(self, part: Part):
        pause = FIRST_PAUSE
        while not self.stopping.is_set():
            began = time.monotonic()
            try:
                self._start(part)
            except OSError as error:  # no memory, too many processes: that may pass
                why = f"cannot be started ({error.strerror})"
            else:
                why = await self._watch(part)
                await self._end(part)
            if self.stopping.is_set():
                return
            if time.monotonic() - began > HEALTHY_AFTER:
                pause = FIRST_PAUSE
            say(f"{part.name} {why}; it starts again in {pause:g} s")
            await self._sleep_unless(self.stopping, pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _start(self, part: Part):
        part.heard()  # from now on it has its time to come up
        part.ready.clear()
        part.beat_seen = _heartbeat_of(part.name)  # what its predecessor left is no sign of life
        part.process = subprocess.Popen(
            part.argv,
            cwd=settings.BASE_DIR,
            env=os.environ | {"HANDRAIL_HOME": str(settings.HANDRAIL_HOME), "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            process_group=0,
            pass_fds=part.pass_fds,
            preexec_fn=_die_with_parent,
        )
        self._tell_warden(f"+{part.process.pid}")
        self._in_background(self._print_lines(part.name, part.process.stdout))

    async def _watch(self, part: Part) -> str:
        """Until it has ended, hangs, or is to stop; why, in words."""
        asking = asyncio.create_task(self._keep_asking(part))
        try:
            while not self.stopping.is_set():
                if part.has_ended():
                    return "ended"
                patience = part.patience if part.ready.is_set() else part.patience + START_PATIENCE
                if part.silence() > patience:
                    return f"gave no sign of life for {patience:g} s and is killed"
                await asyncio.sleep(TICK)
            return "stops"
        finally:
            asking.cancel()

    async def _keep_asking(self, part: Part):
        while True:
            await part.ask(part)
            await asyncio.sleep(ASK_EVERY if part.ready.is_set() else TICK)

    async def _end(self, part: Part):
        """Ask the leader to stop, when it is not hanging already, and end what is left of its group."""
        if self.stopping.is_set() and not part.has_ended():
            part.process.terminate()
            await self._sleep_unless(self.hurry, STOP_PATIENCE, or_ended=part)
            if not part.has_ended():
                say(f"{part.name} does not stop and is killed")
        try:
            os.killpg(part.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        status = await asyncio.to_thread(part.process.wait)
        if status not in (0, -signal.SIGKILL, -signal.SIGTERM):
            say(f"{part.name} ended with {f'status {status}' if status > 0 else f'signal {-status}'}")
        self._tell_warden(f"-{part.process.pid}")

    async def _sleep_unless(self, event: asyncio.Event, seconds: float, or_ended: Part | None = None):
        until = time.monotonic() + seconds
        while not event.is_set() and (left := until - time.monotonic()) > 0:
            if or_ended and or_ended.has_ended():
                return
            await asyncio.sleep(min(TICK, left))

    async def _print_lines(self, name: str, pipe):
        """Whoever inherited the pipe may keep it open for long, so nothing waits for its end."""
        reader = asyncio.StreamReader(limit=LINE_BYTES)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        while True:
            try:
                line = await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as last:
                if last.partial:
                    say(last.partial.decode(errors="replace"), name)
                return
            except asyncio.LimitOverrunError as full:
                line = await reader.readexactly(full.consumed)
            say(line.decode(errors="replace").rstrip("\n"), name)

    def _in_background(self, work):
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def lock_home() -> int:
    """The lock that says "running here"; a warden that still ends what a killed supervisor left is waited for."""
    fd = os.open(settings.HANDRAIL_HOME / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
    until = time.monotonic() + 3
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > until:
                pid = os.read(fd, 20).decode() or "unknown"
                raise Refused(
                    f"Handrail is running already on {settings.HANDRAIL_HOME} (process {pid}). Stop it first, or give "
                    "this one another folder (HANDRAIL_HOME) and port (HANDRAIL_PORT)."
                ) from None
            time.sleep(0.1)
    os.ftruncate(fd, 0)
    os.pwrite(fd, str(os.getpid()).encode(), 0)
    return fd


def listen() -> socket.socket:
    """The web server's socket. It belongs to the supervisor, so while web starts again nobody is turned away."""
    host, port = settings.HANDRAIL_HOST or "0.0.0.0", settings.HANDRAIL_PORT
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        opened = socket.socket(family, kind, protocol)
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
        opened.listen(1024)
    except OSError as error:
        raise Refused(
            f"Handrail cannot listen on {host}:{port}: {error.strerror}. Stop what uses that port, or choose another "
            "one with HANDRAIL_PORT (and the address with HANDRAIL_HOST)."
        ) from None
    opened.setblocking(False)
    return opened


def parts_of_this_host(listening: socket.socket) -> list[Part]:
    manage = [sys.executable, str(Path(settings.BASE_DIR, "manage.py"))]
    # No access log: a one-time sign-in secret is part of an address, and must not be in any log.
    web = [sys.executable, "-m", "daphne", "-v", "0", "--fd", str(listening.fileno()), "dashboard.asgi:application"]
    return [
        Part("web", web, 30, ask_web, pass_fds=(listening.fileno(),)),
        Part("runner", [*manage, "runner", "--skip-checks"], 30, ask_runner),
        Part("queue", [*manage, "qcluster", "--skip-checks"], 90, AskQueue()),
    ]


def up():
    """Run Handrail in the foreground until SIGINT, SIGTERM or SIGHUP. Raises Refused when it must not start."""
    prepare.runtime_folder()
    lock_fd = lock_home()
    listening = listen()
    prepare.prepare(say)
    for warning in prepare.warnings():
        say(f"warning: {warning}")
    line = prepare.welcome()
    connections.close_all()
    supervisor = Supervisor(parts_of_this_host(listening), lock_fd)
    asyncio.run(supervisor.run(lambda: print(line, flush=True)))

"""`make up`: start web, runner and queue, restart those that end, kill those that hang, and stop all of them.

HANDRAIL_PARTS names the parts of this host.

Each part leads its own process group, and no process of a group outlives the supervisor: the supervisor ends them when
it stops, the warden (dashboard/workers/warden.py) when the supervisor is killed, and the kernel ends at least the
leaders if both are killed at once. Sandboxes and host processes are in sessions of their own and keep running; the next
runner adopts them.

The supervisor imports everything once (parts.py) and forks each part (forked.py). It therefore has one thread, and no
database connection while a part starts.
"""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable

from django.conf import settings
from django.db import connections

from dashboard.files.locks import take_lock
from dashboard.ops import bootstrap
from dashboard.ops.bootstrap import StartRefused
from dashboard.processes.forked import Child
from dashboard.processes.listening import listen
from dashboard.processes.parts import Part, heartbeat_of, parts_of_this_host, preload
from dashboard.workers import warden
from dashboard.workers.loop_watch import STACKS
from workspaces.host import parts

MIN_RESTART_DELAY, MAX_RESTART_DELAY = 0.5, 30.0  # seconds; doubled with each restart in a row
STABLE_AFTER = 60.0  # seconds; a part that ran longer than this is restarted after MIN_RESTART_DELAY
START_GRACE = 60.0  # seconds in addition to the timeout of the first heartbeat: a busy machine imports slowly
STOP_TIMEOUT = 8.0  # seconds between SIGTERM and SIGKILL
STACKS_TIMEOUT = 1.0  # seconds that a part that hangs has to print where
POLL_INTERVAL = 0.2  # seconds between polls while a part starts or ends
CHECK_INTERVAL = 10.0  # seconds between two checks of a running part; all are checked at one time
STOOD_STILL = 5.0  # seconds; a supervisor that wakes so much too late was stopped itself, or its whole machine was
MAX_FILES = 65_536  # descriptors of each part
MAX_LINE_BYTES = 16 * 1024  # a longer log line is printed in pieces


def _allow_many_files():
    """Raise RLIMIT_NOFILE: a waiting agent uses a socket and a database file or two, so 500 exceed the usual 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def say(text: str, name: str = "up"):
    """Print a line to stderr, prefixed with the name of its part."""
    try:
        print(f"{name:<6} | {text}", file=sys.stderr, flush=True)
    except OSError:
        pass  # the terminal is gone, but the parts still run


class Supervisor:
    """Starts the parts, restarts those that end or hang, and stops all of them."""

    def __init__(self, parts: list[Part], lock_fd: int):
        self.parts = parts
        self.lock_fd = lock_fd
        self.stopping = asyncio.Event()
        self.kill_now = asyncio.Event()
        self.stop_requested_at = 0.0
        self.warden: subprocess.Popen | None = None
        self._background: set[asyncio.Task] = set()

    def stop(self):
        """Begin to stop; a second call more than a second later kills at once.

        A second call within a second is the same request: a signal to make's process group arrives directly, and again
        through make.
        """
        if not self.stopping.is_set():
            say("stopping")
            self.stop_requested_at = time.monotonic()
            self.stopping.set()
        elif time.monotonic() - self.stop_requested_at > 1:
            self.kill_now.set()

    async def run(self, started: Callable[[], None]):
        """Run until stopped; call `started` once the first part has answered: the web server, where one runs here."""
        _allow_many_files()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.stop)
        self._start_warden()
        self._in_background(self._keep_warden())
        keepers = [asyncio.create_task(self._keep_running(part)) for part in self.parts]
        waiting = asyncio.create_task(self.parts[0].ready.wait())
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
            bufsize=0,  # a line that could not be written must not stay in a buffer
            stdout=subprocess.DEVNULL,
            pass_fds=(self.lock_fd,),  # no other supervisor starts here before the last group has ended
            start_new_session=True,
        )
        for part in self.parts:
            if part.process and part.process.returncode is None:
                self.warden.stdin.write(f"+{part.process.pid}\n".encode())

    def _send_to_warden(self, line: str):
        try:
            self.warden.stdin.write(f"{line}\n".encode())
        except BrokenPipeError:
            pass  # the next warden is given all running parts

    async def _keep_warden(self):
        while True:
            ended = os.pidfd_open(self.warden.pid)
            try:
                await _readable(ended)
            finally:
                os.close(ended)
            say("the warden was killed; another one takes over")
            self.warden.wait()
            self.warden.stdin.close()
            self._start_warden()
            await asyncio.sleep(POLL_INTERVAL)

    async def _keep_running(self, part: Part):
        delay = MIN_RESTART_DELAY
        while not self.stopping.is_set():
            began = time.monotonic()
            try:
                self._start(part)
            except OSError as error:  # no memory or too many processes: may be temporary
                why = f"cannot be started ({error.strerror})"
            else:
                why = await self._watch(part)
                await self._end(part)
            if self.stopping.is_set():
                return
            if time.monotonic() - began > STABLE_AFTER:
                delay = MIN_RESTART_DELAY
            say(f"{part.name} {why}; it starts again in {delay:g} s")
            await self._sleep_unless(self.stopping, delay)
            delay = min(delay * 2, MAX_RESTART_DELAY)

    def _start(self, part: Part):
        part.count_from_now()
        part.ready.clear()
        part.heartbeat_seen = heartbeat_of(part.name)  # ignore the heartbeat of its predecessor
        reading, writing = os.pipe()
        try:
            part.process = Child(part.name, part.main, output=writing, keep=part.keep, group=True)
        except OSError:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        self._send_to_warden(f"+{part.process.pid}")
        self._in_background(self._print_lines(part.name, os.fdopen(reading, "rb", 0)))

    async def _watch(self, part: Part) -> str:
        """Wait until the part has ended, hangs, or is to stop; return which, as a message."""
        checking = asyncio.create_task(self._keep_checking(part))
        ended, stopped = (asyncio.create_task(wait) for wait in (_readable(part.process.ended), self.stopping.wait()))
        try:
            while not self.stopping.is_set():
                if part.has_ended():
                    return "ended"
                timeout = part.timeout if part.ready.is_set() else part.timeout + START_GRACE
                left = timeout - part.silence()
                if left <= 0:
                    return f"sent no heartbeat for {timeout:g} s and is killed"
                pause = left if part.ready.is_set() else min(left, POLL_INTERVAL)  # its first heartbeat shortens it
                due = time.monotonic() + pause
                await asyncio.wait([ended, stopped], timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                _allow_for_standstill(part, due)
            return "stops"
        finally:
            for task in (checking, ended, stopped):
                task.cancel()
            await asyncio.wait([checking, ended, stopped])

    async def _keep_checking(self, part: Part):
        while True:
            interval = CHECK_INTERVAL if part.ready.is_set() else POLL_INTERVAL
            try:
                await part.check(part)
            except Exception as error:  # no heartbeat; `_watch` kills the part if none follows
                say(f"{part.name} could not be checked: {error!r}")
                interval = CHECK_INTERVAL
            pause = interval - time.monotonic() % interval
            due = time.monotonic() + pause
            await asyncio.sleep(pause)
            _allow_for_standstill(part, due)

    async def _end(self, part: Part):
        """Send SIGTERM to the leader, or STACKS if it hangs, then SIGKILL to what is left of its group."""
        if self.stopping.is_set() and not part.has_ended():
            part.process.send_signal(signal.SIGTERM)
            await self._sleep_unless(self.kill_now, STOP_TIMEOUT, or_ended=part)
            if not part.has_ended():
                say(f"{part.name} does not stop and is killed")
        elif not part.has_ended():
            part.process.send_signal(STACKS)
            await self._sleep_unless(self.kill_now, STACKS_TIMEOUT, or_ended=part)
        try:
            os.killpg(part.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        while not part.has_ended():  # it may be in an uninterruptible disk write
            await asyncio.sleep(POLL_INTERVAL / 10)
        status = part.process.wait()
        if status not in (0, -signal.SIGKILL, -signal.SIGTERM, -STACKS):
            say(f"{part.name} ended with {f'status {status}' if status > 0 else f'signal {-status}'}")
        self._send_to_warden(f"-{part.process.pid}")

    async def _sleep_unless(self, event: asyncio.Event, seconds: float, or_ended: Part | None = None):
        until = time.monotonic() + seconds
        while not event.is_set() and (left := until - time.monotonic()) > 0:
            if or_ended and or_ended.has_ended():
                return
            await asyncio.sleep(min(POLL_INTERVAL, left))

    async def _print_lines(self, name: str, pipe):
        """Print the part's output line by line. A grandchild may keep the pipe open, so nothing waits for its end."""
        reader = asyncio.StreamReader(limit=MAX_LINE_BYTES)
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


def _allow_for_standstill(part: Part, due: float):
    """Let a part's silence begin now if the supervisor was to wake at `due` (monotonic) and stood still beyond that.

    Stopped, or frozen with its machine, it has heard nobody meanwhile, and the parts may have stood still as well.
    """
    if time.monotonic() - due > STOOD_STILL:
        part.count_from_now()


async def _readable(fd: int):
    """Wait until a descriptor is readable; a pidfd is when its process has ended."""
    loop, readable = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(fd, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(fd)


def lock_home() -> int:
    """Take the lock of HANDRAIL_HOME, waiting for a warden that still ends the processes of a killed supervisor."""
    path = settings.HANDRAIL_HOME / "up.lock"
    try:
        fd = take_lock(path, wait=3)
    except BlockingIOError:
        raise StartRefused(
            f"Handrail is running already on {settings.HANDRAIL_HOME} (process {path.read_text() or 'unknown'}). Stop "
            "it first, or give this one another folder (HANDRAIL_HOME) and port (HANDRAIL_PORT)."
        ) from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, str(os.getpid()).encode(), 0)
    return fd


def up():
    """Run Handrail in the foreground until SIGINT, SIGTERM or SIGHUP. Raise StartRefused if it must not start."""
    bootstrap.runtime_folder()
    lock_fd = lock_home()
    listening = listen() if parts.run_here("web") else []
    bootstrap.prepare(say)
    bootstrap.register()
    warnings = [*bootstrap.warnings(), *bootstrap.first_warnings()]
    lines = [bootstrap.welcome(), *(f"Warning: {warning}" for warning in warnings)]
    connections.close_all()
    preload()
    os.chdir(settings.BASE_DIR)
    supervisor = Supervisor(parts_of_this_host(listening), lock_fd)
    asyncio.run(supervisor.run(lambda: print(*lines, sep="\n", flush=True)))

"""The parts of `make up` (web, runner and queue): what each runs, and how it is checked for liveness."""

import asyncio
import gc
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module

from django.conf import settings
from django.core.management import execute_from_command_line

from dashboard.net.addresses import to_call
from dashboard.processes.forked import Child

# What web, runner and queue import, except the web server: importing daphne creates an event loop, which a forked child
# must not share.
PRELOADED = (
    "dashboard.asgi",
    "dashboard.processes.queue",
    "dashboard.management.commands.queue",
    "dashboard.management.commands.runner",
    "workspaces.tasks",
)


@dataclass
class Part:
    """One process: its main function, and how it is checked for liveness."""

    name: str
    main: Callable[[], None]  # called in the child
    timeout: float  # seconds without a heartbeat after which it is killed
    check: Callable[["Part"], Awaitable[None]]  # calls `record_heartbeat` if the part lives
    keep: tuple[int, ...] = ()  # descriptors it inherits
    process: Child | None = None
    last_heard: float = 0.0
    heartbeat_seen: int = 0
    ready: asyncio.Event = field(default_factory=asyncio.Event)

    def record_heartbeat(self):
        """Note that the part lives; the first heartbeat makes it ready."""
        self.count_from_now()
        self.ready.set()

    def count_from_now(self):
        """Let its silence begin now."""
        self.last_heard = time.monotonic()

    def silence(self) -> float:
        """Return the seconds since the last heartbeat, or since `count_from_now` if that is later."""
        return time.monotonic() - self.last_heard

    def has_ended(self) -> bool:
        return self.process.has_ended()


async def check_web(part: Part):
    """Count any answer to GET /healthz as a heartbeat."""
    try:
        async with asyncio.timeout(5):
            reader, writer = await asyncio.open_connection(*_reachable_address())
            try:
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                if (await reader.readline()).startswith(b"HTTP/1.1 "):
                    part.record_heartbeat()
            finally:
                writer.close()
    except (OSError, TimeoutError):
        pass


def _reachable_address() -> tuple[str, int]:
    """Return the (host, port) at which this host reaches the web server, also when that listens on a wildcard."""
    return to_call(settings.HANDRAIL_HOST), settings.HANDRAIL_PORT


def heartbeat_of(name: str) -> int:
    """Return the mtime of the part's heartbeat file in nanoseconds, 0 if there is none."""
    try:
        return (settings.HANDRAIL_RUNTIME / "heartbeat" / name).stat().st_mtime_ns
    except OSError:
        return 0


async def check_heartbeat_file(part: Part):
    """Count a changed mtime of the heartbeat file; comparing mtimes with each other needs no synchronized clock."""
    found = heartbeat_of(part.name)
    if found != part.heartbeat_seen:
        part.heartbeat_seen = found
        part.record_heartbeat()


def preload():
    """Import what the parts need and freeze it, so that the garbage collector does not touch the shared pages."""
    gc.disable()  # nothing loaded here is garbage
    for name in PRELOADED:
        import_module(name)
    gc.freeze()
    gc.enable()


def _serve(sockets: tuple[int, ...]):
    from dashboard.processes.web import serve  # only in the web process: see PRELOADED

    serve(*sockets)


def _command(name: str):
    execute_from_command_line(["manage.py", name, "--skip-checks"])


def parts_of_this_host(listening: list[socket.socket]) -> list[Part]:
    """Return those of web, which serves on the listening sockets, runner and queue that HANDRAIL_PARTS names."""
    sockets = tuple(opened.fileno() for opened in listening)
    known = [
        Part("web", partial(_serve, sockets), 30, check_web, keep=sockets),
        Part("runner", partial(_command, "runner"), 30, check_heartbeat_file),
        Part("queue", partial(_command, "queue"), 90, check_heartbeat_file),
    ]
    return [part for part in known if part.name in settings.HANDRAIL_PARTS]

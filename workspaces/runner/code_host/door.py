"""The door in a folder's box: a socket on which the `gh`, `glab` and `git` of the box ask for the reads of their call.

A request is a line of JSON, {ticket, argv}. The answer is frames: a letter, a length and data. `o` and `e` are output
and errors, `q` ends with an exit status, `x` names a program to run in the box instead. A ticket allows the reads that
its call named, word for word, and nothing else.
"""

import asyncio
import contextlib
import json
import logging
import os
import secrets
import shlex
import socket
import time
from collections import Counter
from pathlib import Path

from dashboard.files.atomic_write import replace_file
from workspaces.drivers import code_host_program
from workspaces.drivers.base import DriverError
from workspaces.drivers.box import CODE_HOST
from workspaces.drivers.sandbox.driver import find_python
from workspaces.runner.code_host import copies, reads
from workspaces.services.host_programs import NoProgram

logger = logging.getLogger("handrail.runner")
TICKET_SECONDS = 8 * 3600  # as long as its call may run
MAX_TICKETS, MAX_TIMES = 200, 50
MAX_OPEN = 32  # connections of one box at a time
MAX_REQUEST = 1 << 17
REFUSED = 126
PROGRAMS = ("gh", "glab", "git")


class Doors:
    """The doors of this runner's boxes, and the tickets of calls that may ask there."""

    def __init__(self):
        self._servers = {}  # workspace: its server
        self._tickets = {}  # ticket: (workspace, {argv: plan}, {argv: how often it was asked}, expiry), oldest first
        self._open_now = Counter()  # workspace: connections
        self._fetches = {}  # URL: the task that brings its copy up to date

    async def ticket(self, workspace, plans: list[dict]) -> str:
        """Return the ticket of a call that may make these reads; open the door of its box."""
        await self._open(workspace)
        ticket = secrets.token_urlsafe(24)
        allowed = {tuple(plan["argv"]): plan for plan in plans}
        self._tickets[ticket] = (workspace, allowed, {}, time.monotonic() + TICKET_SECONDS)
        while len(self._tickets) > MAX_TICKETS:
            del self._tickets[next(iter(self._tickets))]
        return ticket

    async def _open(self, workspace):
        folder = await asyncio.to_thread(copies.folder_of, workspace.pk)
        door = folder / "door"
        if workspace.pk in self._servers and door.exists():
            return
        await asyncio.to_thread(_write_programs, folder / "bin")
        listening = _listen(folder)
        serve = lambda reader, writer: self._serve(workspace.pk, reader, writer)  # noqa: E731 - one argument is bound
        self._servers[workspace.pk] = await asyncio.start_unix_server(serve, sock=listening, limit=MAX_REQUEST)
        os.replace(folder / "door.new", door)

    async def _serve(self, workspace_id, reader, writer):
        self._open_now[workspace_id] += 1
        try:
            if self._open_now[workspace_id] <= MAX_OPEN:
                await self._serve_connection(workspace_id, reader, writer)
        finally:
            self._open_now[workspace_id] -= 1
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _serve_connection(self, workspace_id, reader, writer):
        lock = asyncio.Lock()

        async def send(kind: str, data: bytes):
            if data or kind in "qx":
                async with lock:
                    writer.write(kind.encode() + len(data).to_bytes(4, "big") + data)
                    await writer.drain()

        try:
            async with asyncio.timeout(10):
                asked = json.loads(await reader.readline())
            await self._answered(workspace_id, asked, send, reader)
        except (OSError, ValueError, TimeoutError, TypeError, AttributeError):
            pass  # it has gone, or makes no sense
        except Exception:
            logger.exception("a read at the code host failed")

    async def _answered(self, workspace_id, asked: dict, send, reader):
        try:
            workspace, plan = self._allowed(workspace_id, asked)
        except _NotAllowed as why:
            await _refuse(send, str(why))
            return
        gone = asyncio.ensure_future(reader.read(1))
        work = asyncio.ensure_future(self._carried_out(workspace, plan, send))
        try:
            await asyncio.wait({gone, work}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
        finally:
            for task in (gone, work):
                task.cancel()
            await asyncio.gather(gone, work, return_exceptions=True)

    def _allowed(self, workspace_id, asked: dict) -> tuple:
        """Return (workspace, plan) of a request, and count it. Raise _NotAllowed."""
        argv = tuple(map(str, asked["argv"]))
        workspace, plans, counts, expiry = self._tickets.get(str(asked["ticket"]), (None, {}, {}, 0))
        if workspace is None or workspace.pk != workspace_id or time.monotonic() > expiry:
            raise _NotAllowed("this call may not read at the code host")
        if argv not in plans:
            raise _NotAllowed(f"this call was not judged to run `{shlex.join(argv)[:300]}`; make it a call of its own")
        counts[argv] = counts.get(argv, 0) + 1
        if counts[argv] > MAX_TIMES:
            raise _NotAllowed(f"this call ran it {MAX_TIMES} times already")
        return workspace, plans[argv]

    async def _carried_out(self, workspace, plan: dict, send):
        try:
            if plan["fetch"]:
                ran = await self._fetched(workspace, plan, send)
                if ran.status == 0:
                    await send("x", json.dumps(_in_the_box(workspace, plan)).encode())
                    return
            else:
                ran = await reads.run(workspace, plan, send)
        except (NoProgram, OSError, DriverError) as error:
            await _refuse(send, str(error))
            return
        if ran.why:
            await send("e", f"Handrail ended this read: {ran.why}.\n".encode())
        await send("q", str(ran.status).encode())

    async def _fetched(self, workspace, plan: dict, send) -> reads.Ran:
        """Bring the copies up to date; this goes on when the one who asked leaves, for whoever asks next."""
        key = (workspace.pk, json.dumps(plan["fetch"]))
        said = []

        async def keep(kind, data):
            said.append((kind, data))

        if key not in self._fetches:
            self._fetches[key] = asyncio.ensure_future(reads.bring_copies_up_to_date(workspace, plan, keep))
            self._fetches[key].add_done_callback(lambda _task: self._fetches.pop(key, None))
        ran = await asyncio.shield(self._fetches[key])
        for kind, data in said:
            await send(kind, data)
        return ran


class _NotAllowed(Exception):
    """The ticket does not allow this read; the message says why."""


async def _refuse(send, why: str):
    await send("e", f"Handrail did not run this read: {why}.\n".encode())
    await send("q", str(REFUSED).encode())


def _in_the_box(workspace, plan: dict) -> list[str]:
    """Return the call of git that fetches in the box, from the copies in place of the remotes."""
    argv = ["git", "-c", "fetch.recurseSubmodules=no"]
    for url, _refspecs in plan["fetch"]:
        argv += ["-c", f"url.{copies.in_box(workspace.pk, url)}.insteadOf={url}"]
    return [*argv, *plan["argv"][1:]]


def _listen(folder: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.suppress(FileNotFoundError):
        (folder / "door.new").unlink()
    opened = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listening.bind(f"/proc/self/fd/{opened}/door.new")  # a socket's own path has 107 bytes
    finally:
        os.close(opened)
    listening.setblocking(False)
    return listening


def _write_programs(folder: Path):
    """Write the programs that stand before the real ones in the box, and ask at the door."""
    python, _prefix = find_python()
    text = Path(code_host_program.__file__).read_text("utf-8").replace("#!/usr/bin/python3 -IS", f"#!{python} -IS", 1)
    for name in PROGRAMS:
        replace_file(folder / name, text.encode(), mode=0o755)


def for_programs(ticket: str) -> dict[str, str]:
    """Return what the box's init tells a call's programs: where theirs are, and their ticket."""
    return {"bin": f"{CODE_HOST}/bin", "ticket": ticket}

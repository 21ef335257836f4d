"""Processes of a sandbox, which are commands and terminals: found by a number, and followed until they end."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from itertools import chain
from signal import Signals

from approvals.protocols.e2b.wire import part
from dashboard.database.threads import query_in_thread
from dashboard.problems import Problem, conflict, not_found
from workspaces import operations
from workspaces.drivers.base import DriverError
from workspaces.models import Command, Operation, Terminal
from workspaces.programs import recordings, terminals

RECENT = 200  # ended commands, and terminals, among which a number is looked up besides those that run
POLL_S = 0.1
NOTED_S = 20.0  # how long the last word on an ended program waits for the runner's
RELATED = ("operation", "workspace__runner", "workspace__environment", "workspace__team")


def pid_of(program: Command | Terminal) -> int:
    """Return the number by which the SDKs name a program of a sandbox: 31 bits of its id."""
    return program.pk.int & 0x7FFFFFFF


def running(workspace, actor) -> list[Command | Terminal]:
    """Return the programs that run in a workspace and that the actor may see."""
    return list(chain(*(rows.filter(operation__in=Operation.objects.open()) for rows in _rows(workspace, actor))))


def find(workspace, actor, message: dict) -> Command | Terminal:
    """Return the program that a message selects by its number. Problem 404."""
    pid = part(message, "process").get("pid")
    recent = chain(*(rows.order_by("-created_at")[:RECENT] for rows in _rows(workspace, actor)))
    found = next((one for one in chain(running(workspace, actor), recent) if pid_of(one) == pid), None)
    if found is None:
        raise not_found("process in this sandbox")
    return found


def find_running(workspace, actor, message: dict) -> Command | Terminal:
    """Return the running program that a message selects. Problem 404 if it has ended."""
    found = find(workspace, actor, message)
    if operations.is_over(found.operation):
        raise not_found("process in this sandbox")
    return found


def require_seen(workspace, actor, program: Command | Terminal):
    """Raise Problem 404 if the actor may not see the program any more: a person shares a terminal no longer."""
    if not any(rows.filter(pk=program.pk).exists() for rows in _rows(workspace, actor)):
        raise not_found("process in this sandbox")


def _rows(workspace, actor):
    """Return the querysets of the commands and terminals of a workspace that the actor may see."""
    return (
        workspace.commands.select_related(*RELATED),
        workspace.terminals.readable_by(actor).select_related(*RELATED),
    )


async def events(program: Command | Terminal, offset: int, ping_s: float) -> AsyncIterator[dict]:
    """Yield what the SDKs read of a program: its number, its output from `offset` on, and how it ended.

    After each `ping_s` seconds of silence a message says that the stream is alive.
    """
    yield {"event": {"start": {"pid": pid_of(program)}}}
    kind = "pty" if isinstance(program, Terminal) else "stdout"
    async with aclosing(_with_pings(_output(program, offset), ping_s)) as pieces:
        async for piece in pieces:
            if piece is None:
                yield {"event": {"keepalive": {}}}
            elif piece:
                yield {"event": {"data": {kind: base64.b64encode(piece).decode()}}}
    yield {"event": {"end": await _end(program)}}


async def _output(program, offset: int) -> AsyncIterator[bytes]:
    await until_started(program)
    async with aclosing(recordings.followed(program, offset)) as pieces:
        async for piece in pieces:
            yield piece


async def until_started(program):
    """Wait until the runner has started a program, or could not: its workspace may have to be resumed first."""
    while True:
        recording = await query_in_thread(recordings.of, program)
        if await query_in_thread(recording.has_started) or await query_in_thread(_is_over, program):
            return
        await asyncio.sleep(POLL_S)


async def once_it_listens(terminal: Terminal, tell: Callable[[], Awaitable]):
    """Tell a program something; one that has just been started does not listen yet. Problem 409 if it has ended."""
    await until_started(terminal)
    recording = await query_in_thread(recordings.of, terminal)
    while (await query_in_thread(recording.status)).state == "running":
        try:
            await tell()
            return
        except DriverError as error:
            if not isinstance(error.__cause__, OSError):
                raise conflict("The terminal takes no more input.") from None
        await asyncio.sleep(POLL_S)
    raise conflict("The terminal has ended.")


def _is_over(program) -> bool:
    return operations.is_over(Operation.objects.get(pk=program.operation_id))


async def _with_pings(pieces: AsyncIterator[bytes], ping_s: float) -> AsyncIterator[bytes | None]:
    """Yield what `pieces` yields, and None whenever it was silent for `ping_s` seconds."""
    coming = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(pieces))
            await asyncio.wait([coming], timeout=ping_s)
            if not coming.done():
                yield None
                continue
            done, coming = coming, None
            try:
                yield done.result()
            except StopAsyncIteration:
                return
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)
        await pieces.aclose()


async def _end(program) -> dict:
    """Return how a program ended, as envd tells it. Problem 409 if it did not run."""
    operation = await operations.wait_async(program.operation, NOTED_S)
    if isinstance(program, Terminal):
        status, words = await query_in_thread(terminals.end_of, program.pk)
        return _exited(status) if status is not None else _killed("", words)
    command = await query_in_thread(Command.objects.get, pk=program.pk)
    reason = (operation.outcome or {}).get("reason", "")
    if command.signal is not None:
        return _killed(f"signal: {_signal_name(command.signal)}", reason)
    if command.exit_status is None:
        raise Problem(409, reason or "It did not run.")
    return _exited(command.exit_status)


def _signal_name(number: int) -> str:
    """Return the name of a signal; its number for those between the named real-time signals, which have none."""
    try:
        return Signals(number).name
    except ValueError:
        return str(number)


def _exited(status: int) -> dict:
    words = f"exit status {status}"
    return {"exitCode": status, "exited": True, "status": words} | ({"error": words} if status else {})


def _killed(status: str, words: str) -> dict:
    return {"exitCode": -1, "exited": False, "status": status or words, "error": words or status}

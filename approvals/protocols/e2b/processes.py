"""envd's calls on processes: start them, follow them, type into them, end them."""

import base64
import binascii
import posixpath
import uuid

from approvals.evaluation.calls import root_of
from approvals.protocols.e2b import held, programs, wire
from approvals.protocols.e2b.answering import RECHECK_S, in_thread, sandbox_of, streamed, unary, while_seen
from approvals.protocols.e2b.wire import messages_in, part
from dashboard.database.threads import query_in_thread
from dashboard.problems import Problem, invalid, not_allowed
from workspaces import lifecycle
from workspaces.api import lookup, schemas
from workspaces.models import Command, Terminal
from workspaces.operations.needs_approval import AskFirst
from workspaces.programs import recordings, terminals
from workspaces.services import commands
from workspaces.shim import client

SHELLS = ("/bin/bash", "bash", "/bin/sh", "sh")
NO_INPUT = "A command has no input here. Start a terminal with `pty`, and type into that."
OWN_USER = ("", "user")  # a program runs as the workspace's own user, which the SDKs call so
# What the SDKs set in each terminal, as every terminal here has it.
TERMINAL_VARIABLES = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}


@streamed()
async def start(request, message):
    """Start a command, or a terminal with `pty`, and follow it until it ends."""
    seconds, key = wire.seconds_in(request.headers), uuid.uuid4().hex
    try:
        program = await in_thread(_start, request, message, seconds, key)
    except AskFirst as wanted:
        program = await held.carried_out(request.auth, wanted, key, held.patience(seconds))
    program = await query_in_thread(_loaded, program)
    async for event in _seen(request, program, 0):
        yield event


@streamed()
async def connect(request, message):
    """Follow a process from now on."""
    program = await query_in_thread(_find, request, message)
    recording = await query_in_thread(recordings.of, program)
    async for event in _seen(request, program, await query_in_thread(recording.length)):
        yield event


def _seen(request, program: Command | Terminal, offset: int):
    """Return the events of a program for as long as the caller may see it."""
    return while_seen(
        request,
        programs.events(program, offset, _ping_s(request)),
        lambda: programs.require_seen(lookup.find(request, program.workspace.key), request.auth.actor, program),
    )


@unary
async def list_processes(request, message):
    """Return the processes that run in the sandbox."""
    found = await query_in_thread(lambda: programs.running(sandbox_of(request), request.auth.actor))
    return {"processes": [{"pid": programs.pid_of(one), "config": _config(one)} for one in found]}


@unary
async def send_input(request, message):
    """Type into a terminal."""
    await _type(request, await in_thread(_terminal, request, message), [part(message, "input")])
    return {}


@unary
async def update(request, message):
    """Set the size of a terminal."""
    terminal = await in_thread(_terminal, request, message)
    cols, rows = _size(part(message, "pty"))
    recording = await query_in_thread(recordings.of, terminal)
    await programs.once_it_listens(terminal, lambda: client.resize(recording.end, cols, rows))
    return {}


@unary
async def send_signal(request, message):
    """End a process; no other signal is sent."""
    if message.get("signal") not in ("SIGNAL_SIGKILL", "SIGNAL_SIGTERM"):
        raise invalid("The signal is SIGNAL_SIGKILL or SIGNAL_SIGTERM.")
    await in_thread(_end, request, message)
    return {}


@unary
async def close_stdin(request, message):
    """Refuse: commands have no input here."""
    raise Problem(501, NO_INPUT)


@streamed(messages_in)
async def stream_input(request, messages):
    """Type into a terminal what comes in one request: the program gets it once the request has ended."""
    first, *rest = messages or [{}]
    terminal = await in_thread(_terminal, request, part(first, "start"))
    await _type(request, terminal, [part(part(one, "data"), "input") for one in rest if "data" in one])
    yield {}


def _start(request, message: dict, seconds: float | None, key: str) -> Command | Terminal:
    config, pty = part(message, "process"), part(message, "pty")
    if wire.user_in(request.headers) not in OWN_USER:
        raise not_allowed("Programs run as the sandbox's own user. Leave `user` out.")
    args, cwd, env = config.get("args") or [], config.get("cwd") or "", part(config, "envs")
    words = [config.get("cmd"), *args] if isinstance(args, list) else [None]
    if not words[0] or not all(isinstance(word, str) for word in [*words, cwd, *env.values()]):
        raise invalid("cmd, cwd, each of args and each value of envs are texts, and cmd is not empty.")
    workspace = sandbox_of(request, "type_in_terminal" if pty else "use_workspace")
    cwd = posixpath.join(root_of(workspace), cwd) if cwd else ""
    if pty:
        return commands.open_terminal(workspace, _terminal_wish(words, cwd, env, pty), by=request.auth.actor)
    if message.get("stdin"):
        raise Problem(501, NO_INPUT)
    is_shell = words[0] in SHELLS and len(words) > 2 and words[-2] == "-c" and set(words[1:-2]) <= {"-l"}
    wish = {"command": words[-1]} if is_shell else {"argv": words}
    wish |= {"timeout_s": wire.whole_seconds(seconds)}
    wish |= {name: value for name, value in (("cwd", cwd), ("env", env)) if value}
    wish = schemas.NewCommand(**wish).model_dump(exclude_none=True)
    return commands.run_command(workspace, wish, by=request.auth.actor, idempotency_key=key)


def _terminal_wish(words: list[str], cwd: str, env: dict, pty: dict) -> dict:
    """Return a terminal as in the API. A folder and variables of its own are set by `env`, which starts its program."""
    cols, rows = _size(pty)
    own = [f"{name}={value}" for name, value in env.items() if TERMINAL_VARIABLES.get(name) != value]
    before = ["env", *(["-C", cwd] if cwd else []), *own]
    argv = words if len(before) == 1 else [*before, *words]
    return schemas.NewTerminal(argv=argv, cols=cols, rows=rows).model_dump()


def _size(pty: dict) -> tuple[int, int]:
    size = part(pty, "size")
    cols, rows = size.get("cols", 80), size.get("rows", 24)
    if not all(type(number) is int and 1 <= number <= 1000 for number in (cols, rows)):
        raise invalid("A terminal has 1 to 1,000 columns and rows.")
    return cols, rows


def _loaded(program: Command | Terminal) -> Command | Terminal:
    return type(program).objects.select_related(*programs.RELATED).get(pk=program.pk)


def _find(request, message):
    return programs.find(sandbox_of(request), request.auth.actor, message)


def _terminal(request, message: dict) -> Terminal:
    """Return the running terminal that a message selects, to type into it. Problem 501 for a command."""
    workspace = sandbox_of(request, "type_in_terminal")
    terminal = programs.find_running(workspace, request.auth.actor, message)
    if isinstance(terminal, Command):
        raise Problem(501, NO_INPUT)
    if not terminals.takes_typing_of(terminal, request.auth.actor):
        raise not_allowed("Agents type only into terminals that agents opened.")
    lifecycle.resume_for_use(workspace, by=request.auth.actor)
    return terminal


async def _type(request, terminal: Terminal, inputs: list[dict]):
    for given in inputs:
        data = _bytes(given)
        try:
            await query_in_thread(lambda data=data: terminals.check_typing(terminal, data, by=request.auth.actor))
        except AskFirst as wanted:
            seconds = held.patience(wire.seconds_in(request.headers))
            await held.carried_out(request.auth, wanted, uuid.uuid4().hex, seconds)
            continue
        except UnicodeDecodeError:
            raise invalid("The input is shown for approval, so it must be UTF-8.") from None
        await programs.once_it_listens(terminal, lambda data=data: terminals.type_into(terminal, data))


def _bytes(given: dict) -> bytes:
    if "pty" not in given:
        raise Problem(501, NO_INPUT)
    try:
        return base64.b64decode(given["pty"], validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise invalid("Input is base64.") from None


def _end(request, message: dict):
    workspace = sandbox_of(request, "use_workspace")
    program = programs.find_running(workspace, request.auth.actor, message)
    if isinstance(program, Command):
        commands.cancel_command(program, by=request.auth.actor)
    else:
        lifecycle.cancel_operation(workspace, program.operation, by=request.auth.actor)


def _config(program: Command | Terminal) -> dict:
    argv = program.argv
    folder = {} if isinstance(program, Terminal) else {"cwd": program.cwd}
    return {"cmd": argv[0], "args": argv[1:], "envs": {}} | folder


def _ping_s(request) -> float:
    text = request.headers.get("Keepalive-Ping-Interval", "")
    return min(max(1.0, float(text)), RECHECK_S) if text.isdecimal() and len(text) < 5 else RECHECK_S

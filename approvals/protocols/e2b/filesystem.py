"""envd's calls on files and folders: look, list, make, move, remove, watch."""

import posixpath
import shlex
import uuid

from approvals.evaluation.calls import root_of
from approvals.protocols.e2b import entries, held, watching, wire
from approvals.protocols.e2b.answering import in_thread, sandbox_of, streamed, unary, while_seen
from dashboard.database.threads import query_in_thread
from dashboard.live.long_poll import place_for
from dashboard.problems import Problem, conflict, invalid, unavailable
from workspaces import lifecycle, operations
from workspaces.changes import file_writes, history
from workspaces.models import Command
from workspaces.operations.needs_approval import AskFirst
from workspaces.programs import recordings
from workspaces.services import commands

DEEPEST = 32  # levels of folders in one list
SHOWN_OUTPUT = 2000  # bytes of a failed command's output in its error
FILE_S = 60  # for which a folder may be made or moved


@unary
async def stat(request, message):
    """Return what is known of a file, folder or link."""

    def look():
        workspace = sandbox_of(request)
        return {"entry": entries.stat_of(workspace, entries.inside(workspace, message.get("path") or ""))}

    return await in_thread(look)


@unary
async def list_dir(request, message):
    """Return the entries of a folder, those of folders in it up to `depth`."""
    depth = message.get("depth") or 1
    if type(depth) is not int or not 1 <= depth <= DEEPEST:
        raise invalid(f"depth is a number from 1 to {DEEPEST}.")

    def look():
        workspace = sandbox_of(request)
        return {"entries": entries.below(workspace, entries.inside(workspace, message.get("path") or ""), depth)}

    return await in_thread(look)


@unary
async def make_dir(request, message):
    """Make a folder and those above it, by a command."""

    def wished():
        workspace = sandbox_of(request, "use_workspace")
        path = entries.inside(workspace, message.get("path") or "")
        entries.refuse_existing(workspace, path)
        return workspace, path, ["mkdir", "-p", "--", _name(workspace, path)]

    workspace, path, argv = await in_thread(wished)
    await _run(request, workspace, shlex.join(argv))
    return {"entry": await in_thread(entries.stat_of, workspace, path)}


@unary
async def move(request, message):
    """Move a file or folder, by a command; a file that is there already is replaced."""

    def wished():
        workspace = sandbox_of(request, "use_workspace")
        source, target = (entries.inside(workspace, message.get(name) or "") for name in ("source", "destination"))
        entries.stat_of(workspace, source)
        return workspace, source, target

    workspace, source, target = await in_thread(wished)
    before = shlex.join(["mkdir", "-p", "--", _name(workspace, posixpath.dirname(target))])
    change = shlex.join(["mv", "-T", "--", _name(workspace, source), _name(workspace, target)])
    await _run(request, workspace, f"{before} && {change}" if b"/" in target else change)
    return {"entry": await in_thread(entries.stat_of, workspace, target)}


@unary
async def remove(request, message):
    """Remove a file, or a folder with all that is in it; what is not there stays away."""
    path = message.get("path") or ""
    try:
        await in_thread(_remove, request, path)
    except AskFirst as wanted:
        seconds = held.patience(wire.seconds_in(request.headers))
        await held.carried_out(request.auth, wanted, uuid.uuid4().hex, seconds)
    except Problem as problem:
        if problem.status != 404:
            raise
    return {}


def _remove(request, path: str):
    workspace = sandbox_of(request, "use_workspace")
    raw = entries.inside(workspace, path)
    if not raw:
        raise invalid("The folder of the workspace itself can't be removed.")
    lifecycle.resume_for_use(workspace, by=request.auth.actor)
    lifecycle.wait_until_ready(workspace)
    file_writes.delete_file(workspace, raw, by=request.auth.actor)
    lifecycle.record(workspace, request.auth.actor, "file.deleted", history.path_fields("path", raw))


@streamed()
async def watch_dir(request, message):
    """Tell what changes in a folder until the client goes."""
    with place_for(request.auth):
        folder = await in_thread(_folder, request, message)
        seen = await in_thread(folder.look)
        yield {"start": {}}
        async for event in while_seen(request, watching.followed(folder, seen), lambda: sandbox_of(request)):
            yield {"filesystem": event} if event else {"keepalive": {}}


@unary
async def create_watcher(request, message):
    """Begin to watch a folder; its changes are fetched with `GetWatcherEvents`."""
    return {"watcherId": await in_thread(lambda: watching.keep(_folder(request, message), request.auth))}


@unary
async def get_watcher_events(request, message):
    """Return what has changed in a watched folder since it was asked for last."""

    def look():
        return watching.news(message.get("watcherId"), sandbox_of(request), request.auth)

    return {"events": await in_thread(look)}


@unary
async def remove_watcher(request, message):
    """Watch a folder no longer."""
    await in_thread(lambda: watching.drop(message.get("watcherId"), sandbox_of(request), request.auth))
    return {}


def _folder(request, message: dict) -> watching.Folder:
    workspace = sandbox_of(request)
    path = entries.inside(workspace, message.get("path") or "")
    return watching.Folder(workspace, path, bool(message.get("recursive")))


def _name(workspace, path: bytes) -> str:
    """Return a path as a command has it. Problem 422 if it is not UTF-8."""
    try:
        return posixpath.join(root_of(workspace), path.decode())
    except UnicodeDecodeError:
        raise invalid("The path is no UTF-8.") from None


async def _run(request, workspace, command: str):
    """Run a shell command in the sandbox to its end, as an agent's command is. Problem 409 with its output."""
    key, wish = uuid.uuid4().hex, {"command": command, "timeout_s": FILE_S, "cwd": root_of(workspace)}
    try:
        run = lambda: commands.run_command(workspace, wish, by=request.auth.actor, idempotency_key=key)  # noqa: E731
        made = await in_thread(run)
    except AskFirst as wanted:
        seconds = held.patience(wire.seconds_in(request.headers))
        made = await held.carried_out(request.auth, wanted, key, seconds)
    operation = await operations.wait_async(made.operation, FILE_S)
    if not operations.is_over(operation):
        raise unavailable("The sandbox hasn't got to it yet. Ask again later.")
    ended = await query_in_thread(
        lambda: Command.objects.select_related("operation", "workspace__runner").get(pk=made.pk)
    )
    if ended.exit_status != 0:
        data, _ = await query_in_thread(lambda: recordings.of(ended).tail(SHOWN_OUTPUT))
        raise conflict(data.decode("utf-8", "replace").strip() or operation.outcome["reason"])

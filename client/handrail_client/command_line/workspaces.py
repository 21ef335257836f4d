"""`handrail workspaces`, `handrail run`, `handrail push`, `handrail snapshots`, `handrail notes`."""

import shlex
import sys

from handrail_client.command_line.printing import as_json, copy_out, plain, rows
from handrail_client.errors import HandrailError

COLUMNS = ["key", "state", "driver", "environment", "description"]
SNAPSHOT_COLUMNS = ["number", "kind", "created_at", "bytes", "label"]


def add_to(commands):
    made = commands.add_parser("workspaces", help="list workspaces; show, create, pause, resume, stop one")
    made.add_argument("verb", nargs="?", default="list", choices=["list", "show", "create", "pause", "resume", "stop"])
    made.add_argument("key", nargs="?")
    made.add_argument("--git", help="create: the repository")
    made.add_argument("--ref", help="create: its branch, tag or commit")
    made.add_argument("--environment", help="create: by name")
    made.set_defaults(run=manage)

    made = commands.add_parser("run", help="run a command in a workspace, print its output, exit with its status")
    made.add_argument("--cwd")
    made.add_argument("--timeout", type=int, help="seconds")
    made.add_argument("--key", dest="idempotency_key", help="start it once, however often this is repeated")
    made.add_argument("--detach", action="store_true", help="print its id and do not wait")
    made.add_argument("workspace")
    made.add_argument("command", nargs="+", help="one shell line, or the words of a command after --")
    made.set_defaults(run=run)

    made = commands.add_parser("push", help="send a folder as a new workspace, or as its next revision")
    made.add_argument("--replace", action="store_true", help="replace the files of the workspace instead of merging")
    made.add_argument("--base", type=int, help="the newest snapshot that you have seen; changes after it are conflicts")
    made.add_argument(
        "--ignore", action="append", default=[], help="a pattern as in a .gitignore to leave out; may be repeated"
    )
    made.add_argument("folder")
    made.add_argument("workspace")
    made.set_defaults(run=push)

    made = commands.add_parser("snapshots", help="list snapshots of a workspace; take or restore one")
    made.add_argument("verb", choices=["list", "take", "restore"])
    made.add_argument("workspace")
    made.add_argument("number", nargs="?", type=int)
    made.add_argument("paths", nargs="*", help="restore: only these")
    made.add_argument("--label", default="")
    made.set_defaults(run=snapshots)

    made = commands.add_parser("notes", help="print the notes of a workspace, or replace them with standard input")
    made.add_argument("workspace")
    made.add_argument("--write", action="store_true")
    made.set_defaults(run=notes)


def manage(desk, asked):
    found = desk.workspaces
    if asked.verb == "list":
        return rows(found.all(), COLUMNS, as_is=asked.json)
    if not asked.key:
        raise HandrailError("Name the workspace by its key.")
    if asked.verb == "show":
        return as_json(found.get(asked.key))
    if asked.verb == "create":
        source = {"git": asked.git, "ref": asked.ref} if asked.git else None
        wish = {"source": source and {name: value for name, value in source.items() if value}}
        wish |= {"environment": asked.environment}
        workspace = found.create(asked.key, **{name: value for name, value in wish.items() if value})
    else:
        workspace = found.move(asked.key, asked.verb)
    return _state(workspace, asked)


def _state(workspace: dict, asked):
    if asked.json:
        return as_json(workspace)
    print(f"{workspace['key']} is {workspace['state']}{': ' * bool(workspace['reason'])}{plain(workspace['reason'])}")
    return None if workspace["state"] != "failed" else 1


def run(desk, asked) -> int | None:
    command = asked.command[0] if len(asked.command) == 1 else asked.command
    wish = {"cwd": asked.cwd, "timeout_s": asked.timeout}
    wish = {name: value for name, value in wish.items() if value is not None}
    started = desk.workspaces.run(asked.workspace, command, idempotency_key=asked.idempotency_key, **wish)
    if "id" not in started:
        raise HandrailError(f"{shlex.join(asked.command)} was not started: {started.get('status')}")
    if asked.detach:
        return as_json(started) if asked.json else print(started["id"])
    copy_out(desk.workspaces.output(started["id"]))
    done = desk.workspaces.finished(started["id"])
    if done["exit_status"] is None:
        print(f"handrail: {plain(done['reason']) or 'ended without an exit status'}", file=sys.stderr)
        return 128 + done["signal"] if done["signal"] else 1
    return done["exit_status"]


def push(desk, asked):
    how = {"replace": asked.replace, "base": asked.base, "ignore": asked.ignore}
    return _state(desk.workspaces.push(asked.folder, asked.workspace, **how), asked)


def snapshots(desk, asked):
    found = desk.workspaces
    if asked.verb == "list":
        return rows(found.snapshots(asked.workspace), SNAPSHOT_COLUMNS, as_is=asked.json)
    if asked.verb == "take":
        taken = found.snapshot(asked.workspace, asked.label)
        return as_json(taken) if asked.json else print(taken["number"])
    if asked.number is None:
        raise HandrailError("Name the snapshot by its number.")
    restored = found.restore(asked.workspace, asked.number, asked.paths)
    found.settled(asked.workspace)
    if asked.json:
        return as_json(restored)
    return print(f"Restored snapshot {asked.number}; before it: snapshot {restored.get('safety_snapshot')}.")


def notes(desk, asked):
    if asked.write:
        desk.workspaces.write_notes(asked.workspace, sys.stdin.read())
        return
    print(desk.workspaces.notes(asked.workspace)["text"], end="")

"""`handrail files`."""

import sys

from handrail_client.command_line.printing import copy_out, rows
from handrail_client.errors import HandrailError


def add_to(commands):
    made = commands.add_parser("files", help="list, print, write or delete files of a workspace")
    made.add_argument("verb", choices=["list", "get", "put", "delete"])
    made.add_argument("workspace")
    made.add_argument("path", nargs="?", default="")
    made.add_argument("--snapshot", type=int, help="list, get: as they were in this snapshot")
    made.add_argument("--from", dest="source", metavar="FILE", help="put: this file instead of standard input")
    made.set_defaults(run=files)


def files(desk, asked):
    found = desk.workspaces
    if asked.verb == "list":
        entries = found.files(asked.workspace, asked.path, snapshot=asked.snapshot)
        return rows(entries, ["type", "size", "name"], as_is=asked.json)
    if not asked.path.strip("/"):
        raise HandrailError("Name the file by its path.")
    if asked.verb == "get":
        return copy_out(found.read(asked.workspace, asked.path, snapshot=asked.snapshot))
    if asked.verb == "delete":
        found.remove(asked.workspace, asked.path)
        return None
    if asked.source is None:
        found.write(asked.workspace, asked.path, sys.stdin.buffer.read())
        return None
    with open(asked.source, "rb") as file:
        found.write(asked.workspace, asked.path, file)
    return None

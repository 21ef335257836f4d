"""Which MCP servers Claude Code's settings name: the project's, the user's and the administrator's.

Only what identifies a server leaves this module: its command line or address, and a digest of its whole entry. The
entry itself may hold tokens.
"""

import hashlib
import json
import os
import re
import shlex
import stat
from contextlib import ExitStack, suppress
from pathlib import Path

from workspaces.drivers.base import DriverError
from workspaces.runner import bound_files
from workspaces.store import StoreError, safe_open

MANAGED = Path("/etc/claude-code/managed-mcp.json")  # only root writes there
PROJECT_FILE, USER_FILE = b".mcp.json", b".claude.json"
MAX_SETTINGS = 32 << 20  # bytes; the user's file holds the history of prompts as well
MAX_SERVERS = 200
MAX_SHOWN = 500
PROJECT, LOCAL, USER, ADMINISTRATOR = "project", "local", "user", "administrator"
UNREADABLE = "unreadable"  # origin of a file that cannot be read as settings: any server could be in it


def read(workspace, tree, tool: str, cwd: str, seconds: float) -> list[dict]:
    """Return [{"name", "origin", "runs", "sha256"}] of each entry that the name of a tool, `mcp__…`, may mean."""
    found = []
    with ExitStack() as stack:
        contents = bound_files.contents_of(workspace, tree, "", stack, seconds)
        root = os.fsencode(workspace.own_folder) or bound_files.TREE
        for origin, path in _files(root, os.fsencode(cwd), contents.home):
            within = (root,) if origin == PROJECT else (b"/",)
            try:
                data = contents.text(path, MAX_SETTINGS, within)
                found += _entries(origin, data, root, cwd) if data is not None else []
            except (OSError, StoreError, DriverError, safe_open.BadPath, ValueError, RecursionError):
                found.append({"name": "", "origin": UNREADABLE, "runs": os.fsdecode(path), "sha256": ""})
    if workspace.own_folder:
        found += _managed()
    return [each for each in found if each["origin"] == UNREADABLE or tool.startswith(f"mcp__{each['name']}__")]


def _files(root: bytes, cwd: bytes, home: bytes) -> list[tuple[str, bytes]]:
    """Return (origin, path) of the files, the project's in each folder from `cwd` up to the root."""
    folders, folder = [root], os.path.normpath(cwd)
    while folder.startswith(root.rstrip(b"/") + b"/") and len(folders) < 64:
        folders.append(folder)
        folder = os.path.dirname(folder)
    return [*((PROJECT, each + b"/" + PROJECT_FILE) for each in folders), (USER, home + b"/" + USER_FILE)]


def _managed() -> list[dict]:
    try:
        fd = os.open(MANAGED, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return []
    with open(fd, "rb") as file, suppress(ValueError, RecursionError):
        if stat.S_ISREG(os.fstat(fd).st_mode):
            return _entries(ADMINISTRATOR, file.read(MAX_SETTINGS), b"", "")
    return []


def _entries(origin: str, data: bytes, root: bytes, cwd: str) -> list[dict]:
    """Return the servers of one file. ValueError if it holds anything else."""
    settings = json.loads(data)
    if not isinstance(settings, dict):
        raise ValueError("not an object")
    found = [_entry(origin, name, entry) for name, entry in _servers(settings)]
    if origin == USER:
        projects = settings.get("projects")
        for folder in dict.fromkeys((os.fsdecode(root), cwd)):
            own = projects.get(folder) if isinstance(projects, dict) else None
            found += [_entry(LOCAL, name, entry) for name, entry in _servers(own if isinstance(own, dict) else {})]
    return found


def _servers(settings: dict) -> list[tuple]:
    servers = settings.get("mcpServers", {})
    if not isinstance(servers, dict) or len(servers) > MAX_SERVERS:
        raise ValueError("mcpServers is not a table of servers")
    return list(servers.items())


def _entry(origin: str, name: str, entry) -> dict:
    whole = json.dumps(entry, sort_keys=True, separators=(",", ":")).encode("utf-8", "surrogatepass")
    # Claude Code makes the name of a tool of these letters.
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)
    return {"name": plain, "origin": origin, "runs": _shown(entry), "sha256": hashlib.sha256(whole).hexdigest()}


def _shown(entry) -> str:
    """Return the address or the command line of a server."""
    if not isinstance(entry, dict):
        return ""
    if isinstance(entry.get("url"), str):
        return re.sub(r"//[^/\s@]*@|[?#].*", lambda found: "//" if found[0][0] == "/" else "", entry["url"])[:MAX_SHOWN]
    args = entry.get("args")
    words = [entry.get("command"), *(args if isinstance(args, list) else [])]
    return shlex.join(map(str, words))[:MAX_SHOWN]

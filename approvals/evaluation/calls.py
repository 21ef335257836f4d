"""A tool call that an agent submits: validation, canonical bytes, and the hash that identifies the same call."""

import hashlib
import posixpath
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, cached_property

from django.db.models import CharField, UUIDField

from dashboard import json_text
from dashboard.database.prepared import Prepared, Slot
from dashboard.models import Actor
from dashboard.people.access import CallerSlots
from dashboard.problems import invalid, not_allowed
from dashboard.text import strict_json
from workspaces.models import Workspace
from workspaces.operations import absent
from workspaces.operations.needs_approval import is_hook_file

GATE, BROKER = "gate", "broker"
MAX_PATH = 4096
# Tools that the broker carries out: {tool: (required arguments, optional arguments)}.
BROKERED = {
    "Bash": ({"command": str}, {"timeout": int, "description": str}),
    "Write": ({"file_path": str, "content": str}, {}),
    "Edit": ({"file_path": str, "old_string": str, "new_string": str}, {"replace_all": bool}),
}
# Arguments without effect: the same call with another description is the same call.
IGNORED_ARGUMENTS = {"Bash": {"description"}}


@dataclass(frozen=True)
class Call:
    """A tool call that an agent asks for. `workspace` is a row that the agent may see; times are in seconds."""

    tool: str
    arguments: dict
    cwd: str | None = None
    workspace: Workspace | None = None
    mode: str = GATE
    session: str = ""  # if empty, two equal calls are two actions
    call_id: str = ""  # the agent's id for this call
    asked_at: datetime | None = None  # set for hooks only: hooks of one event share its answer
    reasoning: str = ""  # the agent's explanation
    expires_in_s: int | None = None
    hold_s: int | None = None  # how long the hook can wait; the action cannot be extended beyond it
    idempotency_key: str | None = None
    wraps: bool = False  # it is answered with a changed call, which runs in the box of a connected folder
    own_verb: bool = False  # of approvals.evaluation.own_verbs, which no caller can name directly
    asks: bool = False  # a person decides even if the policy would allow it
    schema: dict | None = None  # the JSON schema of the tool's arguments
    served: object | None = None  # of an MCP tool behind a gate (approvals.actions.mcp_tools.Served)
    by: Actor | None = None  # the person for whom it is submitted in the agent's name
    transcript: str = ""  # the path of its session's transcript, as the agent says
    body_hash: str = field(default="", repr=False)  # of the request that brought it

    def __post_init__(self):
        if self.cwd is None and self.workspace is not None:
            object.__setattr__(self, "cwd", root_of(self.workspace))
        for name in ("session", "call_id", "reasoning"):
            object.__setattr__(self, name, strict_json.without_nul(getattr(self, name)))
        if self.served is not None and not self.tool.startswith("mcp__"):
            raise invalid("Only a tool named mcp__SERVER__TOOL has an MCP server.")
        if not self.own_verb:
            check(self.tool, self.arguments, self.cwd, self.workspace, self.mode)

    def canonical(self, files=()) -> bytes:
        return canonical(self.tool, self.arguments, self.cwd, self.workspace, files)

    def hash_for(self, agent) -> str:
        """Return a hash that identifies the same call of the same agent and session, whatever its description."""
        return sha256(f"{agent.pk} {self._likeness}".encode())

    @cached_property
    def _likeness(self) -> str:
        """The hash of what makes two calls of one agent the same."""
        ignored = IGNORED_ARGUMENTS.get(self.tool, set())
        alike = {
            "session": self.session,
            "tool": self.tool,
            "arguments": {name: value for name, value in self.arguments.items() if name not in ignored},
            "cwd": self.cwd,
            "workspace": str(self.workspace.pk) if self.workspace else None,
        }
        if self.served is not None:
            alike["served"] = self.served.identity
        return sha256(strict_json.canonical(alike))


def root_of(workspace) -> str:
    """Return the root of the workspace as its agent sees it: a connected folder's own path, else /workspace."""
    return workspace.own_folder or "/workspace"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def canonical(tool: str, arguments: dict, cwd: str | None, workspace, files=()) -> bytes:
    """Return the bytes that are stored, shown, hashed and run. Problem 422 if there is no canonical form.

    `files` are the entries {kind, path, sha256} of what the call runs (approvals.actions.bound_files), if any.
    """
    call = {"tool": tool, "arguments": arguments, "cwd": cwd, "workspace": workspace.key if workspace else None}
    return strict_json.canonical(call | ({"files": list(files)} if files else {}))


def parsed(canonical: bytes) -> dict:
    """Parse a revision's bytes: {tool, arguments, cwd, workspace}, and {files} if it binds any."""
    return json_text.loads(bytes(canonical))


def find_workspace(key: str | None, caller) -> Workspace | None:
    """Return the workspace of a call: the named one, else the token's, else None. Problem 404, 409, 410."""
    if not key and not caller.workspace_id:
        return None
    named = ("key", key) if key else ("pk", caller.workspace_id)
    kept = _kept(CallerSlots.of(caller), named[0]).rows(**CallerSlots.values(caller), named=named[1])
    if not kept:
        raise absent.refusal_of_key(Workspace.objects.visible_to(caller).filter(named), in_trash=409)
    return kept[0]


@cache
def _kept(slots: CallerSlots, by: str) -> Prepared:
    named = Slot("named", CharField() if by == "key" else UUIDField())
    visible = Workspace.objects.visible_to(slots.caller()).kept().select_related("environment")
    return Prepared(lambda: visible.filter((by, named)).order_by("pk")[:1], slots.marks)


def folder_around(cwd: str | None, caller) -> Workspace | None:
    """Return the agent's connected folder around `cwd`, for a token without a workspace (`connect --system`)."""
    if not cwd or not cwd.startswith("/") or (caller.token and caller.token.workspace_id):
        return None
    folders = Workspace.objects.visible_to(caller).kept().connected_folders()
    around = (
        folder for folder in folders.select_related("environment") if beneath(cwd, "/", root_of(folder)) is not None
    )
    return next(around, None)


def check(tool: str, arguments: dict, cwd: str | None, workspace, mode: str):
    """Raise Problem 422 for an invalid call, 403 for one by the broker that would change a file of the gate."""
    if not isinstance(tool, str) or not tool.strip() or len(tool) > 200 or not tool.isprintable():
        raise invalid("tool must be a name of at most 200 printable characters.")
    if tool.startswith("Handrail.") or tool in ("network.credential", "network.request"):
        raise invalid("Handrail's own operations have their own endpoints.")
    if not isinstance(arguments, dict):
        raise invalid("arguments must be a JSON object.")
    if cwd is not None:
        _check_path("cwd", cwd)
        if not cwd.startswith("/"):
            raise invalid("cwd must be an absolute path.")
    command = arguments.get("command")
    if tool == "Bash" and isinstance(command, str) and "\0" in command:
        raise invalid("A command can't contain NUL.")
    if mode == BROKER:
        _check_brokered(tool, arguments, cwd, workspace)
    elif mode != GATE:
        raise invalid("mode must be gate or broker.")


def _check_path(name: str, path: str):
    if not path or "\0" in path or len(path) > MAX_PATH:
        raise invalid(f"{name} must be a path of 1 to {MAX_PATH:,} characters without NUL.")


def _check_brokered(tool: str, arguments: dict, cwd: str | None, workspace):
    if tool not in BROKERED:
        raise invalid(f"Mode broker supports {', '.join(BROKERED)}, not {tool}. Use mode gate and run it yourself.")
    if workspace is None:
        raise invalid("Mode broker needs a workspace.")
    required, optional = BROKERED[tool]
    for name, kind in required.items():
        if not isinstance(arguments.get(name), kind):
            raise invalid(f"{tool} needs {name} ({kind.__name__}).")
    for name, value in arguments.items():
        kind = required.get(name) or optional.get(name)
        if kind is None:
            raise invalid(f"Mode broker takes {', '.join([*required, *optional])} for {tool}, not {name!r}.")
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise invalid(f"{name} must be of type {kind.__name__}.")
    if tool == "Bash" and not arguments["command"].strip():
        raise invalid("The command is empty.")
    if not 0 < arguments.get("timeout", 1) <= 24 * 3600 * 1000:
        raise invalid("timeout must be from 1 to 86,400,000 milliseconds.")
    if beneath(cwd, "/", root_of(workspace)) is None:
        raise invalid(f"cwd {cwd!r} is outside the workspace.")
    if "file_path" in required:
        _check_path("file_path", arguments["file_path"])
        inside = beneath(arguments["file_path"], cwd, root_of(workspace))
        if not inside:
            raise invalid(f"{arguments['file_path']!r} is outside the workspace.")
        if is_hook_file(inside.encode("utf-8", "surrogatepass")):
            raise not_allowed("Agents can't change files of Handrail's hook, or folders with them.")


def beneath(path: str, cwd: str, root: str) -> str | None:
    """Return the path relative to the root: "" for the root itself, None outside it.

    Works on the text only; the runner resolves symlinks.
    """
    whole = posixpath.normpath(posixpath.join(cwd, path))
    relative = posixpath.relpath(whole, root)
    if relative == ".":
        return ""
    return None if relative == ".." or relative.startswith("../") else relative

"""A call as an agent asks for it: what must be in it, its canonical bytes, and what makes two calls the same."""

import hashlib
import json
import posixpath
from dataclasses import dataclass, field

from dashboard import strict_json
from dashboard.problems import conflict, invalid, not_found
from workspaces.models import Workspace

GATE, BROKER = "gate", "broker"
MAX_PATH = 4096
# What the broker carries out, and the arguments that each tool must and may have.
BROKERED = {
    "Bash": ({"command": str}, {"timeout": int, "description": str}),
    "Write": ({"file_path": str, "content": str}, {}),
    "Edit": ({"file_path": str, "old_string": str, "new_string": str}, {"replace_all": bool}),
}
# Arguments that change nothing of what happens: the same call with another description is the same call.
WITHOUT_EFFECT = {"Bash": {"description"}}


@dataclass(frozen=True)
class Call:
    """One thing that an agent asks to do. `workspace` is a row that the agent may see; times are in seconds."""

    tool: str
    arguments: dict
    cwd: str | None = None
    workspace: Workspace | None = None
    mode: str = GATE
    session: str = ""  # empty: a session of its own, so that two equal calls are two actions
    call_id: str = ""  # the agent's own name for this call
    reasoning: str = ""  # the agent's own words
    expires_in_s: int | None = None
    idempotency_key: str | None = None
    mcp_server: str = ""  # for an MCP tool, where its name does not say for certain
    own_verb: bool = False  # one of Handrail's own (approvals.verbs), which no caller can name by itself
    body_hash: str = field(default="", repr=False)  # of the request that brought it

    def __post_init__(self):
        if self.cwd is None and self.workspace is not None:
            object.__setattr__(self, "cwd", root_of(self.workspace))
        if not self.own_verb:
            check(self.tool, self.arguments, self.cwd, self.workspace, self.mode)

    @property
    def canonical(self) -> bytes:
        return canonical(self.tool, self.arguments, self.cwd, self.workspace)

    def hash_for(self, agent) -> str:
        """Finds the same call of the same session again, in whatever other words the agent explains it."""
        ignored = WITHOUT_EFFECT.get(self.tool, set())
        return sha256(
            strict_json.canonical(
                {
                    "agent": str(agent.pk),
                    "session": self.session,
                    "tool": self.tool,
                    "arguments": {name: value for name, value in self.arguments.items() if name not in ignored},
                    "cwd": self.cwd,
                    "workspace": str(self.workspace.pk) if self.workspace else None,
                }
            )
        )


def root_of(workspace) -> str:
    """The workspace's tree as its agent sees it: the user's own path for a folder, /workspace for all others."""
    return workspace.source.get("path") or "/workspace"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def canonical(tool: str, arguments: dict, cwd: str | None, workspace) -> bytes:
    """The bytes that are stored, shown, hashed and run; Problem 422 for what has no canonical form."""
    return strict_json.canonical(
        {"tool": tool, "arguments": arguments, "cwd": cwd, "workspace": workspace.key if workspace else None}
    )


def parsed(canonical: bytes) -> dict:
    """{tool, arguments, cwd, workspace} of a revision's bytes."""
    return json.loads(bytes(canonical))


def find_workspace(key: str | None, caller) -> Workspace | None:
    """The workspace that a call is about: the named one, else the one that the token is for. Problem 404, 409."""
    if not key:
        key_or_pk = {"pk": caller.token.workspace_id} if caller.token and caller.token.workspace_id else None
    else:
        key_or_pk = {"key": key}
    if key_or_pk is None:
        return None
    visible = Workspace.objects.visible_to(caller).select_related("environment")
    found = visible.kept().filter(**key_or_pk).first()
    if found is None:
        if trashed := visible.in_trash().filter(**key_or_pk).order_by("-trashed_at").first():
            raise conflict(
                f"{trashed.key} is in the trash until {trashed.purge_at:%-d %b %Y}.",
                in_trash_until=trashed.purge_at.isoformat(),
            )
        raise not_found("workspace")
    return found


def check(tool: str, arguments: dict, cwd: str | None, workspace, mode: str):
    """Problem 422, in a sentence, for a call that makes no sense."""
    if not isinstance(tool, str) or not tool.strip() or len(tool) > 200 or not tool.isprintable():
        raise invalid("A tool has a name of at most 200 printable characters.")
    if tool.startswith("Handrail."):
        raise invalid("Handrail's own verbs are asked for at their own addresses.")
    if not isinstance(arguments, dict):
        raise invalid("The arguments of a tool are a JSON object.")
    if cwd is not None:
        _check_path("cwd", cwd)
        if not cwd.startswith("/"):
            raise invalid("cwd must be an absolute path.")
    command = arguments.get("command")
    if tool == "Bash" and isinstance(command, str) and "\0" in command:
        raise invalid("A command holds no NUL.")
    if mode == BROKER:
        _check_brokered(tool, arguments, cwd, workspace)
    elif mode != GATE:
        raise invalid("A mode is gate or broker.")


def _check_path(name: str, path: str):
    if not path or "\0" in path or len(path) > MAX_PATH:
        raise invalid(f"{name} must be a path of 1 to {MAX_PATH:,} characters without NUL.")


def _check_brokered(tool: str, arguments: dict, cwd: str | None, workspace):
    if tool not in BROKERED:
        raise invalid(
            f"The broker carries out {', '.join(BROKERED)}, not {tool}; ask with mode gate and run it yourself."
        )
    if workspace is None:
        raise invalid("The broker works in a workspace; name one.")
    required, optional = BROKERED[tool]
    for name, kind in required.items():
        if not isinstance(arguments.get(name), kind):
            raise invalid(f"{tool} needs {name} ({kind.__name__}).")
    for name, value in arguments.items():
        kind = required.get(name) or optional.get(name)
        if kind is None:
            raise invalid(f"The broker does not know {name!r} of {tool}; it takes {', '.join([*required, *optional])}.")
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise invalid(f"{name} must be of type {kind.__name__}.")
    if tool == "Bash" and not arguments["command"].strip():
        raise invalid("The command is empty.")
    if not 0 < arguments.get("timeout", 1) <= 24 * 3600 * 1000:
        raise invalid("timeout is in milliseconds, from 1 to 86,400,000.")
    if beneath(cwd, "/", root_of(workspace)) is None:
        raise invalid(f"cwd {cwd!r} is outside the workspace.")
    if "file_path" in required:
        _check_path("file_path", arguments["file_path"])
        if not beneath(arguments["file_path"], cwd, root_of(workspace)):
            raise invalid(f"{arguments['file_path']!r} is outside the workspace.")


def beneath(path: str, cwd: str, root: str) -> str | None:
    """The path relative to the root, "" for the root itself, None outside it; as text, symlinks are the runner's."""
    whole = posixpath.normpath(posixpath.join(cwd, path))
    relative = posixpath.relpath(whole, root)
    if relative == ".":
        return ""
    return None if relative == ".." or relative.startswith("../") else relative

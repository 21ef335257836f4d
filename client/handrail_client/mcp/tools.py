"""The tools of `handrail mcp-server`, and what the desk does for each but `ask_permission`."""

import json
from typing import Any

from handrail_client.desk import Handrail
from handrail_client.errors import HandrailError

MAX_OUTPUT = 30_000  # bytes of a command's output, from its end
TEXT = {"type": "string"}
WORKSPACE = {"type": "string", "description": "key of the workspace; may be left out where the connection names one"}


def _tool(name: str, description: str, required: str = "", **properties) -> dict:
    schema = {"type": "object", "properties": properties, "required": required.split()}
    return {"name": name, "description": description, "inputSchema": schema}


TOOLS = [
    _tool(
        "ask_permission",
        "Ask the people at the desk whether a tool call may be made, and wait for the answer. Make the call only if it "
        "is allowed, once, with updatedInput: a person may have edited it.",
        "tool_name input",
        tool_name=TEXT | {"description": "such as Bash"},
        input={"type": "object", "description": "arguments of the call"},
        tool_use_id=TEXT,
        reason=TEXT | {"description": "why the call is needed; shown to the person"},
    ),
    _tool("list_workspaces", "List the workspaces that may be used: key, state and description."),
    _tool("read_notes", "Read the notes of a workspace: what was done, and what is next.", workspace=WORKSPACE),
    _tool(
        "write_notes",
        "Replace the notes of a workspace. With `seen`, the sha256 that read_notes told, only if nobody changed them.",
        "text",
        workspace=WORKSPACE,
        text=TEXT,
        seen=TEXT,
    ),
    _tool("take_snapshot", "Take a snapshot of a workspace's files now.", workspace=WORKSPACE, label=TEXT),
    _tool(
        "run_command",
        "Run a shell command in a workspace, and wait for its end. A person may have to allow it first.",
        "command",
        workspace=WORKSPACE,
        command=TEXT,
        timeout_s={"type": "integer", "minimum": 1},
    ),
]
KNOWN = {tool["name"]: tool["inputSchema"] for tool in TOOLS}


def run_tool(desk: Handrail, name: Any, given: Any) -> str:
    """Return what the tool says. HandrailError if it does not exist, was not given what it needs, or is not allowed."""
    if not isinstance(name, str) or name not in KNOWN:
        raise HandrailError(f"Handrail has no tool {name!r}.")
    _check(name, given)
    if name == "list_workspaces":
        kept = ("key", "state", "description")
        return json.dumps([{key: row.get(key) for key in kept} for row in desk.workspaces.all()], ensure_ascii=False)
    workspace = given.get("workspace") or desk.workspace
    if not workspace:
        raise HandrailError("Name the workspace.")
    match name:
        case "read_notes":
            notes = desk.workspaces.notes(workspace)
            return json.dumps({"text": notes["text"], "sha256": notes["sha256"]}, ensure_ascii=False)
        case "write_notes":
            desk.workspaces.write_notes(workspace, given["text"], seen=given.get("seen"))
            return "The notes are saved."
        case "take_snapshot":
            return f"Snapshot {desk.workspaces.snapshot(workspace, given.get('label', ''))['number']} is taken."
        case _:
            return _run_command(desk, workspace, given)


def _check(name: str, given: Any):
    kinds = {"string": str, "integer": int, "object": dict}
    schema = KNOWN[name]
    if not isinstance(given, dict):
        raise HandrailError("The arguments must be an object.")
    if missing := [key for key in schema["required"] if key not in given]:
        raise HandrailError(f"{name} needs {', '.join(missing)}.")
    for key, value in given.items():
        if key not in schema["properties"]:
            raise HandrailError(f"{name} takes no {key!r}.")
        kind = schema["properties"][key]["type"]
        if not isinstance(value, kinds[kind]) or isinstance(value, bool):
            raise HandrailError(f"{key} must be of the type {kind}.")


def _run_command(desk: Handrail, workspace: str, given: dict) -> str:
    wish = {"timeout_s": given["timeout_s"]} if "timeout_s" in given else {}
    started = desk.workspaces.run(workspace, given["command"], **wish)
    if "id" not in started:
        raise HandrailError(f"The command was not started: {started.get('status')}")
    output, cut = b"", False
    for piece in desk.workspaces.output(started["id"]):
        output += piece
        cut |= len(output) > MAX_OUTPUT
        output = output[-MAX_OUTPUT:]
    done = desk.workspaces.finished(started["id"])
    status = done["reason"] if done["exit_status"] is None else f"exit status {done['exit_status']}"
    shown = output.decode(errors="replace")
    return f"{'(The start is left out.)' if cut else ''}{shown}\n({status})"

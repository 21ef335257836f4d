"""The tools of `handrail mcp-server`, and what the desk does for each but `ask_permission`."""

import json
from typing import Any

from handrail_client import json_text
from handrail_client.desk import Handrail
from handrail_client.errors import HandrailError

MAX_OUTPUT = 30_000  # bytes of a command's output, from its end
TEXT = {"type": "string"}
FLAG = {"type": "boolean"}
NUMBER = {"type": "integer", "minimum": 1}
WORKSPACE = {"type": "string", "description": "key of the workspace; may be left out where the connection names one"}


def _tool(name: str, description: str, required: str = "", **properties) -> dict:
    schema = {"type": "object", "properties": properties, "required": required.split()}
    return {"name": name, "description": description, "inputSchema": schema}


OF_TEXT = {
    "command": TEXT | {"description": "id of the command, if its output is meant"},
    "path": TEXT | {"description": "of the file in the workspace, if a file is meant"},
    "snapshot": NUMBER | {"description": "of the file; else as it is now"},
    "workspace": WORKSPACE,
}
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
        timeout_s=NUMBER,
    ),
    _tool(
        "search_text",
        "Find the lines that match a regular expression in all that a command printed, or in a file of a workspace.",
        "pattern",
        **OF_TEXT,
        pattern=TEXT | {"description": "as Python's re has it"},
        fixed=FLAG | {"description": "the pattern is the text itself"},
        ignore_case=FLAG,
        before={"type": "integer", "minimum": 0, "description": "lines before each match"},
        after={"type": "integer", "minimum": 0, "description": "lines after each match"},
        limit=NUMBER | {"description": "lines that match; 100 if left out"},
        from_line=NUMBER | {"description": "where to go on: more_from of the answer before"},
    ),
    _tool(
        "query_table",
        "Ask all that a command printed, or a file of a workspace, by one SELECT of SQLite: CSV and TSV with a header, "
        "JSON lines, or plain lines. The table is named `output`, or `file` of a file.",
        "sql",
        **OF_TEXT,
        sql=TEXT,
        format=TEXT | {"enum": ["auto", "csv", "tsv", "jsonl", "lines"], "description": "lines: columns n and text"},
        first_line=NUMBER | {"description": "the line with the header"},
        limit=NUMBER | {"description": "rows of the answer; 100 if left out"},
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
    if name in ("search_text", "query_table"):
        return _ask_text(desk, name, given)
    workspace = _workspace(desk, given)
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


def _workspace(desk: Handrail, given: dict) -> str:
    workspace = given.get("workspace") or desk.workspace
    if not workspace:
        raise HandrailError("Name the workspace.")
    return workspace


def _ask_text(desk: Handrail, name: str, given: dict) -> str:
    if ("command" in given) == ("path" in given):
        raise HandrailError("Name either the command or the path of a file.")
    wish = {key: value for key, value in given.items() if key not in ("command", "path", "workspace")}
    found, is_search = desk.workspaces, name == "search_text"
    question = wish.pop("pattern" if is_search else "sql")
    if "command" in given:
        ask, of = (found.search_output if is_search else found.query_output), [given["command"]]
    else:
        ask, of = (found.search_file if is_search else found.query_file), [_workspace(desk, given), given["path"]]
    return _bounded(ask(*of, question, **wish))


def _bounded(answer: dict) -> str:
    """Return the answer as JSON, with only its first lines or rows if it is too long for a model to read.

    Of a single row that is too long, only the beginnings of its texts.
    """
    text = json_text.dumps(answer, ensure_ascii=False)
    kind = "lines" if "lines" in answer else "rows"
    while len(text) > MAX_OUTPUT and len(kept := answer[kind]) > 1:
        begin, rest = kept[: len(kept) // 2], kept[len(kept) // 2]
        answer |= {kind: begin}
        if kind == "lines":
            answer |= {"found": sum(bool(line["matches"]) for line in begin), "more_from": rest["n"]}
        else:
            answer |= {"truncated": True}
        text = json_text.dumps(answer, ensure_ascii=False)
    longest = MAX_OUTPUT
    while len(text) > MAX_OUTPUT and kind == "rows" and (longest := longest // 2):
        cut = [[value[:longest] if isinstance(value, str) else value for value in row] for row in answer["rows"]]
        answer |= {"rows": cut, "truncated": True}
        text = json_text.dumps(answer, ensure_ascii=False)
    return text


def _check(name: str, given: Any):
    kinds = {"string": str, "integer": int, "object": dict, "boolean": bool}
    schema = KNOWN[name]
    if not isinstance(given, dict):
        raise HandrailError("The arguments must be an object.")
    if missing := [key for key in schema["required"] if key not in given]:
        raise HandrailError(f"{name} needs {', '.join(missing)}.")
    for key, value in given.items():
        if key not in schema["properties"]:
            raise HandrailError(f"{name} takes no {key!r}.")
        kind = schema["properties"][key]["type"]
        if not isinstance(value, kinds[kind]) or (isinstance(value, bool) and kind != "boolean"):
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
    all_of_it = f"(The start is left out. search_text and query_table read all of command {started['id']}.)\n"
    return f"{all_of_it if cut else ''}{shown}\n({status})"

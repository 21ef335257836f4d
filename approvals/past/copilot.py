"""Copilot CLI: `~/.copilot/session-state/ID/events.jsonl`, rows of {type, timestamp, data}."""

from approvals.past.calls import PastCall, dict_of, seconds_of, text_of

NAME, LABEL = "copilot", "Copilot"
FOLDER = ".copilot/session-state"
# {Copilot's tool: the policy's}; of files only the path counts.
TOOLS = {"bash": "Bash", "view": "Read", "edit": "Edit", "create": "Write"}


def is_transcript(name: str) -> bool:
    return name == "events.jsonl"


def calls(rows):
    """Yield the calls that started; those without a counterpart in the policy keep their name."""
    root = cwd = ""
    for row in rows:
        data = dict_of(row, "data")
        if row.get("type") in ("session.start", "session.resume"):
            cwd = text_of(dict_of(data, "context"), "cwd") or cwd
            root = root or cwd
        tool = text_of(data, "toolName")
        if row.get("type") == "tool.execution_start" and tool:
            arguments = dict_of(data, "arguments")
            if tool in ("view", "edit", "create") and "path" in arguments:
                arguments = {"file_path": arguments["path"]} | {k: v for k, v in arguments.items() if k != "path"}
            at = seconds_of(row.get("timestamp"))
            yield PastCall(NAME, TOOLS.get(tool, tool), arguments, cwd, root, at, text_of(data, "toolCallId"))

"""Copilot CLI: `~/.copilot/session-state/ID/events.jsonl`, rows of {type, timestamp, data}; only calls are read."""

from approvals.agents.lines import Line
from approvals.agents.transcript_values import dict_of, moment_of, text_of, with_path

NAME, LABEL = "copilot", "Copilot"
FOLDER = ".copilot/session-state"
# {Copilot's tool: the policy's}; of files only the path counts.
TOOLS = {"bash": "Bash", "view": "Read", "edit": "Edit", "create": "Write"}


def is_transcript(name: str) -> bool:
    return name == "events.jsonl"


def folder_of(row: dict) -> str:
    begins = row.get("type") in ("session.start", "session.resume")
    return text_of(dict_of(dict_of(row, "data"), "context"), "cwd") if begins else ""


def read(row: dict, state: dict) -> list[Line]:
    if row.get("type") != "tool.execution_start":
        return []
    data = dict_of(row, "data")
    named = {"tool": text_of(data, "toolName"), "call_id": text_of(data, "toolCallId")}
    return [Line("assistant", "call", dict_of(data, "arguments"), at=moment_of(row), **named)]


def asked(line: Line) -> tuple[str, dict, str]:
    """Return (tool, arguments, ""); a tool without a counterpart in the policy keeps its name."""
    arguments = with_path(line.content, "path") if line.tool in ("view", "edit", "create") else line.content
    return TOOLS.get(line.tool, line.tool), arguments, ""

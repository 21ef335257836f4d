"""Claude Code: `~/.claude/projects/PROJECT/SESSION.jsonl`, a row for each message; calls are blocks of the agent's."""

from approvals.past.calls import PastCall, dict_of, seconds_of, text_of

NAME, LABEL = "claude-code", "Claude Code"
FOLDER = ".claude/projects"


def is_transcript(name: str) -> bool:
    return name.endswith(".jsonl")


def calls(rows):
    """Yield each call; the folder of the session's first row counts as its project."""
    root = ""
    for row in rows:
        cwd = text_of(row, "cwd")
        root = root or cwd
        content = dict_of(row, "message").get("content") if row.get("type") == "assistant" else None
        for block in content if isinstance(content, list) else ():
            if not isinstance(block, dict) or block.get("type") != "tool_use":
                continue
            tool, arguments = text_of(block, "name"), dict_of(block, "input")
            if tool:
                at = seconds_of(row.get("timestamp"))
                yield PastCall(NAME, tool, arguments, cwd or root, root, at, text_of(block, "id"))

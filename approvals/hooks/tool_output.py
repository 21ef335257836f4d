"""Read a tool's output and exit status from the event after it: secrets are masked, then the output is cut."""

import re

from approvals.agents.hook_events import After
from workspaces.secrets.masking import masked

TAIL = 4000  # characters of output that are kept
EXIT_CODE = re.compile(r"(?:Error: )?Exit code (\d{1,3})\n?")
# The tools whose output is kept. Others may return a file that they read or wrote, under names of any agent.
PRINTS = ("Bash", "BashOutput", "Agent", "Task")
# Words in the name of an MCP server's tool that reads a file.
READS = re.compile(r"(?i)(?:^|[_-])(?:reads?|view|open|load|cat|download|files?|contents?|blob)(?:[_-]|$)")


def result_of(heard: After, workspace) -> dict:
    """Return {exit_status, output_bytes, tail}, each if the event has it; an error's text is kept of every tool."""
    text, exit_status = _printed(heard), heard.exit_status
    if heard.error is not None:
        text = heard.error
        if heard.tool == "Bash" and (code := EXIT_CODE.match(text)):
            text, exit_status = text[code.end() :], int(code[1])
    elif heard.tool == "Bash" and _ended_well(heard.response):
        exit_status = 0
    found = {} if exit_status is None else {"exit_status": exit_status}
    if text is None:
        return found
    text = masked(text.replace("\0", "␀"), workspace)  # PostgreSQL cannot store NUL
    return found | {"output_bytes": len(text.encode("utf-8", "surrogatepass")), "tail": text[-TAIL:]}


def _printed(heard: After) -> str | None:
    """Return the output of a command, a sub-agent or an MCP tool; None for all other tools and what reads files."""
    response = heard.response
    if heard.tool not in PRINTS and not _is_of_a_server(heard.tool):
        return None
    if isinstance(response, str):
        return response
    if isinstance(response, dict) and "stdout" in response:
        parts = [response.get("stdout"), response.get("stderr")]
        return "\n".join(part.rstrip("\n") for part in parts if isinstance(part, str) and part)
    blocks = response.get("content") if isinstance(response, dict) else response
    if isinstance(blocks, list):
        texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
        return "\n".join(text for text in texts if isinstance(text, str)) if texts else None
    return None


def _is_of_a_server(tool: str) -> bool:
    """Return whether it is an MCP server's tool that does not read files by its name."""
    own = re.sub(r"([a-z])([A-Z])", r"\1_\2", tool.rpartition("__")[2])  # readFile
    return tool.startswith("mcp__") and not READS.search(own)


def _ended_well(response) -> bool:
    """Return whether a Bash response means exit status 0.

    Claude Code reports a failed command by another event, and describes an exit status such as grep's 1 in
    `returnCodeInterpretation`.
    """
    if not isinstance(response, dict) or "stdout" not in response:
        return False
    return not any(response.get(name) for name in ("interrupted", "backgroundTaskId", "returnCodeInterpretation"))

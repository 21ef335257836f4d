"""Context for the policy: which MCP server the name of a tool means, by the settings that Claude Code reads."""

import json

from approvals.evaluation.calls import root_of
from dashboard.problems import Problem
from workspaces.operations import runner_client

RUNNER_TIMEOUT = 1.5
# What stands in the place of the servers if nobody could look: no rule covers a call then.
UNKNOWN = [{"name": "", "origin": "unreadable", "runs": "The agent's settings", "sha256": ""}]


def servers_for(tool: str, cwd: str | None, workspace) -> dict:
    """Return {"mcp_servers", and "mcp_server" if its name is certain} for a call of an MCP tool, {} for others."""
    if workspace is None or not tool.startswith("mcp__"):
        return {}
    question = {"tool": tool, "cwd": cwd or root_of(workspace), "seconds": RUNNER_TIMEOUT * 0.8}
    body = json.dumps(question).encode()
    try:
        found = runner_client.ask("POST", workspace, "mcp-servers", body=body, timeout=RUNNER_TIMEOUT)["servers"]
    except Problem:
        return {"mcp_servers": UNKNOWN}
    names = {each["name"] for each in found if each["name"]}
    return {"mcp_servers": found} | ({"mcp_server": names.pop()} if len(names) == 1 else {})

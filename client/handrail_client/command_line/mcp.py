"""`handrail mcp-gate` and `handrail mcp-server`."""

from handrail_client.actions import GRACE
from handrail_client.mcp import server, stdio_gate


def add_to(commands):
    made = commands.add_parser("mcp-gate", help="stand before an MCP server and ask before each tool call")
    made.add_argument("--name", help="the server's name in policies: mcp__NAME__TOOL; else made of its command")
    made.add_argument("--session", default="", help="the agent's session that the calls belong to")
    made.add_argument("--grace", type=float, default=GRACE, help="seconds to look for the desk before giving up")
    made.add_argument("command", nargs="+", help="what starts the server, after --")
    made.set_defaults(run=gate)

    made = commands.add_parser("mcp-server", help="serve Handrail's own tools over MCP: permission, workspaces, notes")
    made.add_argument("--grace", type=float, default=GRACE, help="seconds to look for the desk before giving up")
    made.set_defaults(run=serve)


def gate(desk, asked) -> int:
    desk.grace = asked.grace
    return stdio_gate.run(desk, asked.command, name=asked.name, session=asked.session)


def serve(desk, asked):
    desk.grace = asked.grace
    server.serve(desk)

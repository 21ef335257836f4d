"""`handrail mcp-gate` and `handrail mcp-server`."""

from handrail_client.actions import GRACE
from handrail_client.errors import HandrailError
from handrail_client.mcp import http_gate, server, stdio_gate


def add_to(commands):
    made = commands.add_parser("mcp-gate", help="stand before an MCP server and ask before each tool call")
    made.add_argument("--name", help="the server's name in policies: mcp__NAME__TOOL; else made of its command")
    made.add_argument("--session", default="", help="the agent's session that the calls belong to")
    made.add_argument("--grace", type=float, default=GRACE, help="seconds to look for the desk before giving up")
    made.add_argument(
        "--http", metavar="URL", help="stand before a server that speaks streamable HTTP, at this address"
    )
    made.add_argument("--listen", default="127.0.0.1:0", help="--http: where clients connect; port 0: a free one")
    made.add_argument("command", nargs="*", help="what starts the server, after --")
    made.set_defaults(run=gate)

    made = commands.add_parser("mcp-server", help="serve Handrail's own tools over MCP: permission, workspaces, notes")
    made.add_argument("--grace", type=float, default=GRACE, help="seconds to look for the desk before giving up")
    made.set_defaults(run=serve)


def gate(desk, asked) -> int:
    desk.grace = asked.grace
    if bool(asked.http) == bool(asked.command):
        raise HandrailError("Name either the command of a server, after --, or its address with --http.")
    if asked.http:
        return http_gate.run(desk, asked.http, asked.listen, name=asked.name, session=asked.session)
    return stdio_gate.run(desk, asked.command, name=asked.name, session=asked.session)


def serve(desk, asked):
    desk.grace = asked.grace
    server.serve(desk)

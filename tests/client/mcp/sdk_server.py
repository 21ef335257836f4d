"""A server made with the MCP project's SDK: `note` adds a line to the file `ran`."""

from mcp.server.mcpserver import MCPServer

server = MCPServer("sdk")


@server.tool()
def note(command: str) -> str:
    """Add a line."""
    with open("ran", "a") as file:
        file.write(command + "\n")
    return f"noted {command}"


server.run()

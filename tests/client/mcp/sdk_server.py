"""A server made with the MCP project's SDK, over pipes, or over HTTP with the word `http` (it prints its port).

`note` adds a line to the file `ran`; `ship` asks its user for a reason first; `send` has its region in a header too.
The file `description`, if it exists, is what the server then says of `note`.
"""

import socket
import sys
from pathlib import Path
from typing import Annotated

import uvicorn
from mcp.server.mcpserver import Elicit, MCPServer, Resolve
from pydantic import BaseModel, Field


class Server(MCPServer):
    async def list_tools(self, *args, **more):
        if Path("description").exists():
            self._tool_manager.get_tool("note").description = Path("description").read_text()
        return await super().list_tools(*args, **more)


server = Server("sdk")


class Reason(BaseModel):
    text: str


def ran(line: str) -> str:
    with open("ran", "a") as file:
        file.write(line + "\n")
    return f"noted {line}"


@server.tool()
def note(command: str) -> str:
    """Add a line."""
    return ran(command)


async def reason(command: str) -> Elicit[Reason]:
    return Elicit(f"Why {command}?", Reason)


@server.tool()
def ship(command: str, why: Annotated[Reason, Resolve(reason)]) -> str:
    """Add a line with its reason."""
    return ran(f"{command} because {why.text}")


@server.tool()
def send(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})], amount: float = 0) -> str:
    """Add a line for a region."""
    return ran(f"{region} {amount}")


if sys.argv[1:] == ["http"]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        app = server.streamable_http_app(host="127.0.0.1")
        uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
else:
    server.run()

"""The MCP project's own client: it calls `note` of the note server behind a gate, and of a server of its own SDK.

`sdk_program.py GATE…`: the words that start the gate and the server. Prints what the call said.
"""

import asyncio
import os
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


async def main(words: list[str]):
    parameters = StdioServerParameters(command=words[0], args=words[1:], env=dict(os.environ))
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = await session.list_tools()
        result = await session.call_tool(tools.tools[0].name, {"command": "sdk"}, progress_callback=progress)
        print("\n".join(block.text for block in result.content))


async def progress(done: float, total: float | None, words: str | None):
    print(words, file=sys.stderr)


asyncio.run(main(sys.argv[1:]))

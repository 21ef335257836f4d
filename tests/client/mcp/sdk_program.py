"""The MCP project's own client: it calls one tool of a server behind a gate, and prints what the call said.

`sdk_program.py MODE TOOL ARGUMENTS WORDS…`: MODE is `auto` (the newest protocol that both speak) or `legacy` (a
greeting); WORDS start the gate and the server, or are the gate's address. Questions of the tool get the answer "tests".
"""

import asyncio
import json
import os
import sys

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import ElicitResult


async def main(mode: str, tool: str, arguments: str, *words: str):
    target = words[0]
    if not target.startswith("http"):
        target = stdio_client(StdioServerParameters(command=target, args=list(words[1:]), env=dict(os.environ)))
    async with Client(target, mode=mode, elicitation_callback=answer) as client:
        await client.list_tools()
        result = await client.call_tool(tool, json.loads(arguments), progress_callback=progress)
        print(client.protocol_version, result.is_error)
        print("\n".join(block.text for block in result.content))


async def answer(context, asked) -> ElicitResult:
    print(asked.message, file=sys.stderr)
    return ElicitResult(action="accept", content={"text": "tests"})


async def progress(done: float, total: float | None, words: str | None):
    print(words, file=sys.stderr)


asyncio.run(main(*sys.argv[1:]))

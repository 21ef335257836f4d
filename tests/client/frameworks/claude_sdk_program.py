"""A program of the Claude Agent SDK: `claude_sdk_program.py CLAUDE MODE PROMPT [UNGATED]`; prints the last answer."""

import asyncio
import sys

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

from handrail_client import Handrail
from handrail_client.claude_sdk import gated


async def main(claude, mode, prompt, *ungated):
    options = ClaudeAgentOptions(cli_path=claude, permission_mode=mode, setting_sources=["user"])
    async for message in query(prompt=prompt, options=gated(options, Handrail(grace=0.5), ungated=ungated)):
        if isinstance(message, ResultMessage):
            print(message.result)


asyncio.run(main(*sys.argv[1:]))

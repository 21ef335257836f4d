"""An editor made with the protocol's own Python client: `sdk_program.py FOLDER PROMPT -- COMMAND …`.

It prompts the agent once, and prints the reason for the stop and the pieces of its message as one JSON object. It fails
when the agent asks it for permission.
"""

import asyncio
import json
import os
import sys

import acp


class Editor:
    def __init__(self):
        self.said = []

    async def request_permission(self, **asked):
        raise AssertionError(f"the editor was asked: {asked}")

    async def session_update(self, session_id, update, **more):
        if update.session_update == "agent_message_chunk" and update.content.type == "text":
            self.said.append(update.content.text)

    def on_connect(self, connection):
        pass


async def main(folder, prompt, _, *command):
    editor = Editor()
    started = acp.spawn_agent_process(editor, command[0], *command[1:], env=dict(os.environ), cwd=folder)
    async with started as (agent, _):
        await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        session = await agent.new_session(cwd=folder, mcp_servers=[])
        ended = await agent.prompt(session_id=session.session_id, prompt=[acp.text_block(prompt)])
        print(json.dumps({"stop": ended.stop_reason, "said": editor.said}))


asyncio.run(main(*sys.argv[1:]))

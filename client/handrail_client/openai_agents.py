"""OpenAI Agents SDK: tools that ask, a run that stops with its state in a file, and goes on in any process.

agent = gated(Agent(…), desk, session="ticket-41")
result = await Runner.run(agent, "Mend the build")
if result.interruptions:
    save(result, "state.json")              # the program may end here
result = await resume(desk, agent, "state.json")
"""

import asyncio
import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from agents import Agent, AgentHooks, FunctionTool, Runner, RunState

from handrail_client import json_text
from handrail_client.actions import Action
from handrail_client.conversation import Conversation, Message
from handrail_client.desk import Handrail
from handrail_client.errors import HandrailError
from handrail_client.gated_calls import Call, Gate, edit_notice


def gated(
    agent: Agent, desk: Handrail, *, session: str, names: Mapping[str, str] | None = None, ungated: Iterable[str] = ()
) -> Agent:
    """Return the agent with tools that ask the desk. `session` names the run: the same one finds its questions again.

    Tools that run elsewhere, at OpenAI or on a computer, cannot be held here: HandrailError for an agent that has some,
    and for one that hands over to other agents or has MCP servers, whose tools this does not reach.
    """
    if agent.handoffs or agent.mcp_servers:
        raise HandrailError(f"{agent.name} has handoffs or MCP servers, whose tools would not ask.")
    gate = Gate(desk, names or {}, frozenset(ungated))
    hooks = _ConversationHooks(agent.hooks, Conversation(gate, session))
    return agent.clone(tools=[_gated(tool, gate, session) for tool in agent.tools], hooks=hooks)


class _ConversationHooks(AgentHooks):
    """Posts the conversation before and after each turn of the model; the agent's own hooks are called too."""

    def __init__(self, own: AgentHooks | None, conversation: Conversation):
        self._own, self._conversation = own or AgentHooks(), conversation
        self._read: list = []  # by the model in this turn

    async def on_llm_start(self, context, agent, system_prompt, input_items):
        self._read = list(input_items)
        await self._post(self._read)
        await self._own.on_llm_start(context, agent, system_prompt, input_items)

    async def on_llm_end(self, context, agent, response):
        await self._post([*self._read, *response.output])
        await self._own.on_llm_end(context, agent, response)

    async def _post(self, items: list):
        await asyncio.to_thread(self._conversation.post, messages_of(items))

    async def on_start(self, context, agent):
        await self._own.on_start(context, agent)

    async def on_end(self, context, agent, output):
        await self._own.on_end(context, agent, output)

    async def on_handoff(self, context, agent, source):
        await self._own.on_handoff(context, agent, source)

    async def on_tool_start(self, context, agent, tool):
        await self._own.on_tool_start(context, agent, tool)

    async def on_tool_end(self, context, agent, tool, result):
        await self._own.on_tool_end(context, agent, tool, result)


def messages_of(items: list) -> Iterator[Message]:
    """Yield the items that a model reads and writes as the desk has them."""
    for item in items:
        plain = item if isinstance(item, dict) else item.model_dump(exclude_unset=True)
        match plain.get("type", "message"):
            case "message":
                yield Message(plain["role"].replace("developer", "system"), _text(plain["content"]))
            case "function_call":
                arguments = _arguments(plain["arguments"])
                yield Message("assistant", arguments, "call", tool=plain["name"], call_id=plain["call_id"])
            case "function_call_output":
                yield Message("tool", _text(plain["output"]), "result", call_id=plain["call_id"])


def _text(content: str | list) -> str:
    """Return the words of a content; of its other parts, such as pictures, their type alone."""
    parts = [content] if isinstance(content, str) else content
    return "\n".join(
        part if isinstance(part, str) else part.get("text", part.get("refusal", f"[{part.get('type')}]"))
        for part in parts
    )


def _arguments(text: str) -> dict | str:
    """Return the arguments of a call; the text itself where a model wrote no JSON."""
    try:
        return json_text.loads(text or "{}")
    except ValueError:
        return text


def save(result, path: str | Path):
    """Write the state of a run that has stopped to a file that only its owner can read."""
    file = Path(path)
    half = file.with_name(f"{file.name}.half")
    half.unlink(missing_ok=True)
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as written:
        written.write(result.to_state().to_string())
        written.flush()
        os.fsync(written.fileno())
    half.replace(file)


async def resume(desk: Handrail, agent: Agent, path: str | Path, *, timeout: float | None = None, **run):
    """Wait for the decisions on the calls at which the saved run stopped, run it to its end and return its result.

    `agent` is the gated agent, with the session that it had. The file is kept up to date at each further stop, and is
    gone at the end. None after `timeout` seconds without an answer: the file is as it was.
    """
    while True:
        state = await RunState.from_string(agent, Path(path).read_text())
        for item in state.get_interruptions():
            if not await _answered(desk, agent, item, timeout):
                return None
            state.approve(item)  # lets the tool ask for the answer, which alone decides
        result = await Runner.run(agent, state, **run)
        if not result.interruptions:
            Path(path).unlink(missing_ok=True)
            return result
        save(result, path)


async def _answered(desk: Handrail, agent: Agent, item, timeout: float | None) -> bool:
    tool = next((tool for tool in agent.tools if tool.name == item.name), None)
    call_of = getattr(tool and tool.on_invoke_tool, "handrail_call", None)
    if call_of is None:
        raise HandrailError(f"{item.name} is no gated tool of {agent.name}.")
    raw = item.raw_item
    call = call_of(json_text.loads(raw.arguments), raw.call_id)
    action = await asyncio.to_thread(Gate(desk).ask, call)
    return (await asyncio.to_thread(desk.wait, action, timeout=timeout)).status != "pending"


def _gated(tool, gate: Gate, session: str):
    if not isinstance(tool, FunctionTool):
        raise HandrailError(f"{tool.name} does not run in this program, and can't be held here.")
    if tool.name in gate.ungated:
        return tool

    def call_of(arguments: dict, call_id: str) -> Call:
        return gate.call(tool.name, arguments, session, call_id)

    async def needs_approval(context, arguments: dict, call_id: str) -> bool:
        return (await asyncio.to_thread(gate.ask, call_of(arguments, call_id))).status == "pending"

    async def invoke(context, arguments: str):
        used = await asyncio.to_thread(gate.used, call_of(json_text.loads(arguments), context.tool_call_id))
        return used if isinstance(used, str) else await _run(tool, gate, context, used)

    invoke.handrail_call = call_of
    return dataclasses.replace(tool, on_invoke_tool=invoke, needs_approval=needs_approval)


async def _run(tool: FunctionTool, gate: Gate, context, used: Action):
    result = await gate.reported(used, tool.on_invoke_tool(context, json_text.dumps(used.arguments)))
    notice = edit_notice(used)
    return f"{notice}\n{result}" if notice else result

"""A tool call with numbers through one adapter: `numbers_program.py ADAPTER ARGUMENTS` prints what is run, as JSON.

The frameworks' models are left out: each adapter is given the call in the way in which its framework gives it.
"""

import asyncio
import json
import sys
from types import SimpleNamespace

from handrail_client import Handrail, json_text


def claude_sdk(text: str, desk):
    from claude_agent_sdk import ClaudeAgentOptions

    from handrail_client.claude_sdk import gated

    [before] = gated(ClaudeAgentOptions(), desk).hooks["PreToolUse"][0].hooks
    event = {"tool_name": "mcp__pay__send", "tool_input": json.loads(text), "session_id": "s", "cwd": None}
    print(json.dumps(asyncio.run(before(event, "call-1", None))["hookSpecificOutput"]))  # as the SDK reads and writes


def openai(text: str, desk):
    from agents import Agent, FunctionTool

    from handrail_client.openai_agents import gated

    async def pay(context, arguments: str):
        print(arguments)
        return "paid"

    tool = FunctionTool("mcp__pay__send", "Pay.", {"type": "object", "properties": {}}, pay, strict_json_schema=False)
    [own] = gated(Agent(name="payer", tools=[tool]), desk, session="s").tools
    call = own.on_invoke_tool.handrail_call(json_text.loads(text), "call-1")
    desk.wait(desk.ask(call.tool, call.arguments, key=call.key, session=call.session, call_id=call.call_id))
    asyncio.run(own.on_invoke_tool(SimpleNamespace(tool_call_id="call-1"), text))


def langgraph(text: str, desk):
    from langchain_core.tools import tool

    from handrail_client.gated_calls import Call, Gate
    from handrail_client.langgraph import _as_approved

    @tool
    def pay(amounts: list) -> str:
        """Pay."""
        print(json_text.dumps({"amounts": amounts}))
        return "paid"

    call = Call("mcp__pay__send", json.loads(text), "s", "call-1")
    gate = Gate(desk)
    desk.wait(gate.ask(call))
    request = SimpleNamespace(tool_call={"name": "pay", "args": call.arguments, "id": "call-1", "type": "tool_call"})
    request.override = lambda tool_call: SimpleNamespace(tool_call=tool_call)
    pay.invoke(_as_approved(request, gate.used(call)).tool_call)


def aais(text: str, desk):
    from aais.liveness import OwnerIdentity
    from aais.store import ApprovalAuthority

    from handrail_client.aais import HandrailBackend, Presenter

    authority = ApprovalAuthority(HandrailBackend(desk, "numbers"), stream="numbers")
    action = {"kind": "tool.call", "name": "mcp__pay__send", "summary": "Pay", "arguments": json_text.loads(text)}
    choices = [{"decision": decision, "scope": "once", "label": decision} for decision in ("approve", "deny")]
    about = {"risk": {"level": "low", "reasons": ["it pays"]}, "choices": choices, "ttl": 600}
    owner = OwnerIdentity(4_000_000, 1.0, "host-elsewhere")
    authority.add_request(
        action=action, origin={"harness": "t", "session_id": "s"}, request_id="a", owner=owner, **about
    )
    kept = json_text.dumps(authority.get_pending("a"))
    with Presenter(authority, desk, pause=0.2) as presenter:
        found = authority.wait_for_resolution("a", timeout=60)
        print(found["resolution"]["outcome"], presenter.reason("a"), kept)


def pydantic_ai(text: str, desk):
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from handrail_client.pydantic_ai import HandrailCapability

    def answered(messages, info):
        is_begun = len(messages) > 1
        return ModelResponse([TextPart("done") if is_begun else ToolCallPart("pay", text, "call-1")])

    gate = HandrailCapability(desk, session="s", names={"pay": "mcp__pay__send"})
    asyncio.run(Agent(FunctionModel(answered), tools=[pay], capabilities=[gate]).run("Pay."))


def agent_framework(text: str, desk):
    from agent_framework import Content, FunctionTool
    from agent_framework._middleware import FunctionMiddlewarePipeline
    from agent_framework._tools import _auto_invoke_function

    from handrail_client.agent_framework import middleware

    [_, gate] = middleware(desk, session="s", names={"pay": "mcp__pay__send"})
    call = Content.from_function_call("call-1", "pay", arguments=text)
    pipeline, tools = FunctionMiddlewarePipeline(gate), {"pay": FunctionTool(name="pay", func=pay)}
    asyncio.run(_auto_invoke_function(call, config={}, tool_map=tools, middleware_pipeline=pipeline))


def pay(amounts: list) -> str:
    """Pay."""
    print(json_text.dumps({"amounts": amounts}))
    return "paid"


ADAPTERS = {
    "aais": aais,
    "agent_framework": agent_framework,
    "claude_sdk": claude_sdk,
    "langgraph": langgraph,
    "openai": openai,
    "pydantic_ai": pydantic_ai,
}
ADAPTERS[sys.argv[1]](sys.argv[2], Handrail(grace=1))

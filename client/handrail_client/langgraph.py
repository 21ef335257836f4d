"""LangChain and LangGraph: an agent whose tool calls ask, stops with its state saved, and goes on in any process.

agent = create_agent(model, tools, middleware=[HandrailMiddleware(desk)], checkpointer=SqliteSaver(…))
agent.invoke({"messages": […]}, config)     # ends where a call needs approval; the program may end, too
resume(desk, agent, config)                 # waits for the answers, and goes on
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, partial
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.config import get_config
from langgraph.types import Command, interrupt

from handrail_client.actions import Action
from handrail_client.conversation import Conversation, Message
from handrail_client.desk import Handrail
from handrail_client.errors import HandrailError
from handrail_client.gated_calls import Call, Gate, edit_notice

MAX_CONVERSATIONS = 64  # that the middleware of one agent remembers


class HandrailMiddleware(AgentMiddleware):
    """Asks the desk before each tool call.

    A call that needs a person interrupts the graph, with an interrupt in the form of HumanInTheLoopMiddleware's
    `per_call` mode. What the graph is resumed with does not count: only the desk's answer lets a tool run, with the
    arguments that it names, once. List it last, so that it is the nearest to the tool.
    """

    def __init__(self, desk: Handrail, *, names: Mapping[str, str] | None = None, ungated: Iterable[str] = ()):
        super().__init__()
        self.gate = Gate(desk, names or {}, frozenset(ungated))
        # What a forgotten conversation has is posted again, and kept once.
        self._conversation_of = lru_cache(MAX_CONVERSATIONS)(partial(Conversation, self.gate))

    def after_model(self, state, runtime):
        """Post the conversation of this thread, as its last checkpoint has it."""
        if thread := _thread():
            self._conversation_of(thread).post(messages_of(state["messages"]))

    async def aafter_model(self, state, runtime):
        await asyncio.to_thread(self.after_model, state, runtime)

    def wrap_tool_call(self, request, handler):
        if request.tool_call["name"] in self.gate.ungated:
            return handler(request)
        call = self._call(request)
        _pause_while_pending(self.gate.ask(call), request)
        used = self.gate.used(call)
        if isinstance(used, str):
            return _refusal(request, used)
        try:
            result = handler(_as_approved(request, used))
        except BaseException as error:
            self.gate.desk.report_quietly(used, False, repr(error))
            raise
        self.gate.desk.report_quietly(used, *_end(result))
        return _with_notice(result, used)

    async def awrap_tool_call(self, request, handler):
        if request.tool_call["name"] in self.gate.ungated:
            return await handler(request)
        call = self._call(request)
        _pause_while_pending(await asyncio.to_thread(self.gate.ask, call), request)
        used = await asyncio.to_thread(self.gate.used, call)
        if isinstance(used, str):
            return _refusal(request, used)
        result = await self.gate.reported(used, handler(_as_approved(request, used)), _end)
        return _with_notice(result, used)

    def _call(self, request) -> Call:
        """Return the call under an id that is the same when the graph is resumed, and no other call's."""
        asked = request.tool_call
        if not asked.get("id"):
            raise HandrailError(f"The call of {asked['name']} has no id, so its answer could not be found again.")
        thread = _thread()
        if not thread:
            raise HandrailError("Name a thread_id in the config: a call that waits is found again by it.")
        call_id = _call_id(_message_with(asked, request.state), asked)
        return self.gate.call(asked["name"], asked["args"], thread, call_id)


def messages_of(state: list) -> Iterator[Message]:
    """Yield the messages of a graph's state as the desk has them."""
    ids: dict[str, str] = {}  # {a call's id: the one that its action has}
    for message in state:
        match message:
            case HumanMessage():
                yield Message("user", message.text, id=message.id or "")
            case AIMessage():
                if message.text:
                    yield Message("assistant", message.text, id=message.id or "")
                for call in message.tool_calls:
                    ids[call["id"]] = call_id = _call_id(message, call)
                    yield Message("assistant", call["args"], "call", tool=call["name"], call_id=call_id)
            case ToolMessage():
                call_id = ids.get(message.tool_call_id, message.tool_call_id)
                yield Message("tool", message.text, "result", call_id=call_id, ok=message.status != "error")


def _thread() -> str:
    return str(get_config().get("configurable", {}).get("thread_id") or "")


def waiting(graph, config: dict) -> list[dict]:
    """Return the calls at which the graph stopped: {"action", "url", "name", "args", …} of each."""
    return [each.value for each in graph.get_state(config).interrupts]


def resume(desk: Handrail, graph, config: dict, *, timeout: float | None = None) -> Any:
    """Wait for the answers and let the graph go on, until it ends; return its state.

    Works in another process than the one that asked, given the same checkpoints. After `timeout` seconds without an
    answer, it returns with the graph stopped as it was.
    """
    while found := graph.get_state(config).interrupts:
        actions = [_action(desk, each.value) for each in found]
        if any(desk.wait(action, timeout=timeout).status == "pending" for action in actions):
            break
        graph.invoke(Command(resume={each.id: {"type": "approve"} for each in found}), config)
    state = graph.get_state(config)
    if state.next and not state.interrupts:  # stopped by an error or a kill, and not by a question
        graph.invoke(None, config)
        return resume(desk, graph, config, timeout=timeout)
    return state.values


def _action(desk: Handrail, value: Any) -> Action:
    if not isinstance(value, dict) or "action" not in value:
        raise HandrailError("The graph waits for something else than a tool call that Handrail was asked about.")
    return desk.get(value["action"])


def _message_with(asked: dict, state: dict) -> AIMessage:
    """Return the model's message that makes a call."""
    for message in reversed(state["messages"]):
        if isinstance(message, AIMessage) and any(call["id"] == asked["id"] for call in message.tool_calls):
            return message
    raise HandrailError("This call is in no message of the model.")


def _call_id(message: AIMessage, call: dict) -> str:
    """Return a call's id with that of its message: ids of calls alone come again in some models."""
    return f"{message.id or ''}:{call['id']}"


def _pause_while_pending(action: Action, request):
    """Stop the graph here while nobody has answered; whoever resumes it without an answer finds it stopped again."""
    asked = request.tool_call
    while action.status == "pending":
        interrupt({
            "type": "tool_approval", "tool_call_id": asked["id"], "name": asked["name"], "args": asked["args"],
            "description": f"{action.name} needs approval: {action.url}", "action": action.id, "url": action.url,
        })  # fmt: skip


def _as_approved(request, used: Action):
    return request.override(tool_call={**request.tool_call, "args": used.arguments})


def _refusal(request, words: str) -> ToolMessage:
    asked = request.tool_call
    return ToolMessage(words, tool_call_id=asked["id"], name=asked["name"], status="error")


def _end(result) -> tuple[bool, str]:
    failed = isinstance(result, ToolMessage) and result.status == "error"
    return not failed, str(result.content)[:500] if failed else ""


def _with_notice(result, used: Action):
    notice = edit_notice(used)
    if not notice or not isinstance(result, ToolMessage):
        return result
    content = f"{notice}\n{result.content}" if isinstance(result.content, str) else [notice, *result.content]
    return result.model_copy(update={"content": content})

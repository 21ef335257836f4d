"""The model APIs that agents speak, as far as a scripted model needs them: read a request, write a streamed answer.

A turn of the model is a list of blocks: {"type": "text", "text": …} or {"type": "tool_use", "id": …, "name": …,
"input": …}.
"""

import itertools
import json
from abc import ABC, abstractmethod

_ids = itertools.count(1)
TOOL = "tool_use"


class Wire(ABC):
    """One API. Nothing is kept: the conversation is in each request."""

    @abstractmethod
    def reads(self, path: str) -> bool:
        """Return whether requests to this path ask the model for a turn."""

    @abstractmethod
    def messages(self, body: dict) -> list[dict]:
        """Return the conversation, oldest first: {"role": …} and whatever the API has beside it."""

    @abstractmethod
    def tools(self, body: dict) -> list[str]:
        """Return the names of the tools that the agent offers."""

    @abstractmethod
    def results(self, body: dict) -> list:
        """Return the results of this conversation's calls, as the agent reported them."""

    @abstractmethod
    def answer(self, path: str, body: dict, blocks: list[dict]) -> tuple[str, bytes]:
        """Return the content type and the body of the answer."""

    def is_of_model(self, message: dict) -> bool:
        return message.get("role") in ("assistant", "model")

    def turns(self, body: dict) -> int:
        """Return how many turns the model has had."""
        of_model = [self.is_of_model(message) for message in self.messages(body)]
        return sum(now and not before for before, now in zip([False, *of_model], of_model, strict=False))

    def opening(self, body: dict) -> str:
        """Return all that stands before the first turn of the model, as JSON."""
        first = itertools.takewhile(lambda message: not self.is_of_model(message), self.messages(body))
        return json.dumps(list(first), ensure_ascii=False)


class Messages(Wire):
    """Anthropic's, for Claude Code."""

    def reads(self, path):
        return path == "/v1/messages"

    def messages(self, body):
        return body["messages"]

    def tools(self, body):
        return [tool["name"] for tool in body.get("tools") or ()]

    def results(self, body):
        blocks = [b for m in body["messages"] if isinstance(m["content"], list) for b in m["content"]]
        return [block for block in blocks if block["type"] == "tool_result"]

    def answer(self, path, body, blocks):
        stop = TOOL if _has_call(blocks) else "end_turn"
        message = {"id": f"msg_test{next(_ids):06d}", "type": "message", "role": "assistant", "model": body["model"]}
        message |= {"content": [], "stop_reason": None, "stop_sequence": None}
        message["usage"] = {"input_tokens": 10, "output_tokens": 1}
        if not body.get("stream"):
            return "application/json", json.dumps(message | {"content": blocks, "stop_reason": stop}).encode()
        events = [{"type": "message_start", "message": message}]
        for index, block in enumerate(blocks):
            events += self._block(index, block)
        delta = {"stop_reason": stop, "stop_sequence": None}
        events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}})
        events.append({"type": "message_stop"})
        return _stream(events, named=True)

    def _block(self, index: int, block: dict) -> list[dict]:
        if block["type"] == "text":
            empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = block | {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        return [
            {"type": "content_block_start", "index": index, "content_block": empty},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]


class Responses(Wire):
    """OpenAI's Responses, for Codex."""

    def reads(self, path):
        return path.endswith("/responses")

    def messages(self, body):
        return body["input"] if isinstance(body["input"], list) else [{"role": "user", "content": body["input"]}]

    def is_of_model(self, message):
        return message.get("role") == "assistant" or message.get("type") in ("function_call", "custom_tool_call")

    def tools(self, body):
        return [tool.get("name", "") for tool in body.get("tools") or ()]

    def results(self, body):
        return [each["output"] for each in self.messages(body) if str(each.get("type")).endswith("_call_output")]

    def answer(self, path, body, blocks):
        response = {"id": f"resp_test{next(_ids):06d}", "object": "response", "model": body.get("model", "")}
        items = [self._item(block) for block in blocks]
        usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
        usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
        done = response | {"status": "completed", "output": items, "usage": usage}
        if not body.get("stream"):
            return "application/json", json.dumps(done).encode()
        events = [{"type": "response.created", "response": response | {"status": "in_progress", "output": []}}]
        for index, item in enumerate(items):
            events.append({"type": "response.output_item.added", "output_index": index, "item": item})
            events.append({"type": "response.output_item.done", "output_index": index, "item": item})
        return _stream([*events, {"type": "response.completed", "response": done}], named=True)

    def _item(self, block: dict) -> dict:
        common = {"id": f"item_test{next(_ids):06d}", "status": "completed"}
        if block["type"] == "text":
            content = [{"type": "output_text", "text": block["text"], "annotations": []}]
            return common | {"type": "message", "role": "assistant", "content": content}
        call = {"call_id": block["id"], "name": block["name"], "arguments": json.dumps(block["input"])}
        if block["name"].startswith("mcp__"):  # Codex offers the tools of an MCP server as a namespace
            namespace, _, name = block["name"].rpartition("__")
            call |= {"namespace": namespace, "name": name}
        return common | {"type": "function_call"} | call


class Chat(Wire):
    """OpenAI's Chat Completions, for Qwen Code, OpenCode and Copilot CLI."""

    def reads(self, path):
        return path.endswith("/chat/completions")

    def messages(self, body):
        return body["messages"]

    def tools(self, body):
        return [tool.get("function", {}).get("name", "") for tool in body.get("tools") or ()]

    def results(self, body):
        return [message["content"] for message in body["messages"] if message["role"] == "tool"]

    def answer(self, path, body, blocks):
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        calls = [self._call(number, b) for number, b in enumerate(b for b in blocks if b["type"] == TOOL)]
        said = {"role": "assistant", "content": text or None} | ({"tool_calls": calls} if calls else {})
        stop = "tool_calls" if calls else "stop"
        common = {"id": f"chatcmpl-test{next(_ids):06d}", "created": 1, "model": body.get("model", "")}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        if not body.get("stream"):
            whole = {"object": "chat.completion", "usage": usage}
            choice = {"index": 0, "message": said, "finish_reason": stop}
            return "application/json", json.dumps(common | whole | {"choices": [choice]}).encode()
        common["object"] = "chat.completion.chunk"
        events = [
            common | {"choices": [{"index": 0, "delta": said, "finish_reason": None}]},
            common | {"choices": [{"index": 0, "delta": {}, "finish_reason": stop}], "usage": usage},
        ]
        return _stream(events, end=b"data: [DONE]\n\n")

    def _call(self, number: int, block: dict) -> dict:
        named = {"name": block["name"], "arguments": json.dumps(block["input"])}
        return {"index": number, "id": block["id"], "type": "function", "function": named}


class GenerateContent(Wire):
    """Google's, for Gemini CLI."""

    def reads(self, path):
        return path.endswith((":generateContent", ":streamGenerateContent"))

    def messages(self, body):
        return body["contents"]

    def tools(self, body):
        declared = [each for tool in body.get("tools") or () for each in tool.get("functionDeclarations") or ()]
        return [each["name"] for each in declared]

    def results(self, body):
        parts = [part for message in body["contents"] for part in message.get("parts") or ()]
        return [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]

    def answer(self, path, body, blocks):
        parts = [self._part(block) for block in blocks]
        candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        whole = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "scripted"}
        if path.endswith(":streamGenerateContent"):
            return _stream([whole])
        return "application/json", json.dumps(whole).encode()

    def _part(self, block: dict) -> dict:
        if block["type"] == "text":
            return {"text": block["text"]}
        return {"functionCall": {"id": block["id"], "name": block["name"], "args": block["input"]}}


ALL = (Messages(), Responses(), Chat(), GenerateContent())


def _has_call(blocks: list[dict]) -> bool:
    return any(block["type"] == TOOL for block in blocks)


def _stream(events: list[dict], *, named: bool = False, end: bytes = b"") -> tuple[str, bytes]:
    """Return the events as a stream of server-sent events."""
    lines = (f"event: {event['type']}\n" if named else "" for event in events)
    text = "".join(f"{line}data: {json.dumps(event)}\n\n" for line, event in zip(lines, events, strict=True))
    return "text/event-stream", text.encode() + end

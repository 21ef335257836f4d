"""Which bodies the relay passes on: those that make the provider answer and do nothing else.

A provider's own tools reach the network past the workspace's list: web search and fetch, code, remote MCP servers,
files, and sources that are given as an address. Tools are known by a list of what is allowed, so that a new one is
refused. An environment may allow them (`tools` in its models).
"""

import json

from dashboard import strict_json
from dashboard.problems import Problem

# Types of tools that run at the agent, whatever the version at their end. Without a type it is the agent's own.
CLIENT_TOOLS = {
    "anthropic": ("custom", "bash_", "text_editor_", "memory_", "computer_", "tool_search_tool_"),
    "openai": ("function", "custom", "local_shell", "apply_patch", "namespace", "tool_search"),
}
# Fields of a request by which the provider runs or fetches something, or keeps and loads conversations.
REFUSED_FIELDS = {
    "anthropic": ("mcp_servers", "container"),
    "openai": ("previous_response_id", "conversation", "prompt", "background"),
}
SOURCES = ("url", "file", "item_reference")  # kinds of parts that the provider fetches or loads
ADDRESSES = ("image_url", "file_url")  # as a value: an address that is no data: URL
MAX_DEPTH = 40


class BodyRefused(Exception):
    """The body is not passed on; the message can be shown."""


def read(data: bytes) -> dict:
    """Parse a body as one object without repeated names. Raise BodyRefused."""
    try:
        found = strict_json.loads_large(data)
    except Problem as problem:
        raise BodyRefused(f"The body: {problem.detail}") from None
    if not isinstance(found, dict):
        raise BodyRefused("The body is not a JSON object.")
    return found


def check(provider: str, body: dict, *, with_tools: bool):
    """Raise BodyRefused if the provider would do more than answer."""
    if not isinstance(body.get("model"), str):
        raise BodyRefused("The body names no model.")
    if with_tools:
        return
    for field in REFUSED_FIELDS[provider]:
        if body.get(field):
            raise BodyRefused(f"The model relay does not pass on {field}: {_why()}")
    _check_tools(provider, body.get("tools"), 0)
    for part in ("messages", "system", "input", "instructions"):
        _check_sources(body.get(part), 0)


def _check_tools(provider: str, tools, depth: int):
    if depth > MAX_DEPTH or not isinstance(tools, list | None):
        raise BodyRefused("The tools are no list, or nested too deeply.")
    for tool in tools or ():
        kind = tool.get("type") if isinstance(tool, dict) else "?"
        if not _is_client_tool(provider, kind):
            raise BodyRefused(f"The model relay does not pass on the tool {str(kind)[:60]}: {_why()}")
        _check_tools(provider, tool.get("tools"), depth + 1)  # a namespace holds further ones


def _is_client_tool(provider: str, kind) -> bool:
    if kind is None:
        return provider == "anthropic"
    return isinstance(kind, str) and any(
        kind == known or (known.endswith("_") and kind.startswith(known)) for known in CLIENT_TOOLS[provider]
    )


def _check_sources(value, depth: int):
    if depth > MAX_DEPTH:
        raise BodyRefused("The body is nested too deeply.")
    if isinstance(value, list):
        for each in value:
            _check_sources(each, depth + 1)
    elif isinstance(value, dict):
        if value.get("type") in SOURCES or value.get("file_id"):
            raise BodyRefused(f"The model relay passes on no files and addresses: {_why()}")
        for name in ADDRESSES:
            address = value.get(name)
            address = address.get("url") if isinstance(address, dict) else address
            if isinstance(address, str) and not address.startswith("data:"):
                raise BodyRefused(f"The model relay passes on no addresses: {_why()}")
        # The arguments of a tool call are data, even where a field has the name of a source.
        inner = (each for name, each in value.items() if name not in ("input", "arguments"))
        for each in inner:
            _check_sources(each, depth + 1)


def _why() -> str:
    return "it would reach the network past the list of this workspace. The environment's models can allow it (+tools)."


def written(body: dict) -> bytes:
    """Return the body as it is sent: written anew, so that the provider reads what was checked."""
    return json.dumps(body, separators=(",", ":")).encode()

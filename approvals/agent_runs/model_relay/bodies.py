"""Which bodies the relay passes on: those that make the provider answer and do nothing else.

`published.json` lists each field of a request, each `type` of an object in it and each beta that a provider's own SDK
publishes at the version named, as allowed or refused. What it does not list is refused, until somebody has read what it
does: web search and fetch, code, remote MCP servers, files, addresses and further models reach past the workspace's
network list, its models and its budget. An environment may allow the provider's tools (`tools` in its models).
"""

import json
from pathlib import Path

from dashboard import json_text
from dashboard.problems import Problem
from dashboard.text import strict_json

PUBLISHED = json.loads(Path(__file__).with_name("published.json").read_text())
FIELDS, KINDS, BETAS = (
    {
        provider: frozenset(name for name, says in listed.get(group, {}).items() if says == "allowed")
        for provider, listed in PUBLISHED.items()
    }
    for group in ("fields", "kinds", "betas")
)
# Fields that choose other models, accounts or conversations; no environment can allow them.
NEVER = {
    "anthropic": {
        "billing_policy", "fallback_credit_token", "fallbacks", "speed", "thread", "user_profile_id", "workspace_id",
    },
    "openai": {"access_programs", "background_options", "moderation"},
}  # fmt: skip
SERVICE_TIERS = ("auto", "default", "flex", "standard_only")  # those at the price that the budget reckons with
# Data of an agent's own, which the provider does not read as part of the request.
DATA = ("input_schema", "output_schema", "parameters", "schema", "input_examples", "metadata", "client_metadata")
CALLED_WITH = ("tool_use", "server_tool_use", "custom_tool_call", "function_call", "tool_search_call")
SOURCES = ("url", "file", "item_reference")  # kinds of parts that the provider fetches or loads
ADDRESSES = ("image_url", "file_url")  # as a value: an address that is no data: URL
# Numbers of one type: what is checked and reserved is what the provider reads.
WHOLE = ("max_tokens", "max_output_tokens", "budget_tokens", "max_tool_calls", "top_k", "top_logprobs")
MAX_NUMBER = 10_000_000
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
    """Raise BodyRefused if the provider would do more than answer, or answer by another model."""
    if not isinstance(body.get("model"), str):
        raise BodyRefused("The body names no model.")
    for field, value in body.items():
        is_listed = field in FIELDS[provider] or (with_tools and field in PUBLISHED[provider]["fields"])
        if value is not None and (field in NEVER[provider] or not is_listed):
            raise BodyRefused(f"The model relay does not pass on {field[:60]}: {_why()}")
    if body.get("service_tier") not in (None, *SERVICE_TIERS):
        raise BodyRefused("The model relay does not pass on this service_tier: it has a price of its own.")
    _Checks(provider, body["model"], with_tools).check(body, 0)


class _Checks:
    """Look at every object of a body, at any depth."""

    def __init__(self, provider: str, model: str, with_tools: bool):
        self.provider, self.model, self.with_tools = provider, model, with_tools

    def check(self, value, depth: int):
        if depth > MAX_DEPTH:
            raise BodyRefused("The body is nested too deeply.")
        if isinstance(value, list):
            for each in value:
                self.check(each, depth + 1)
        elif isinstance(value, dict):
            self._object(value)
            for name, each in value.items():
                if not _is_data(value, name, depth):
                    self.check(each, depth + 1)

    def _object(self, found: dict):
        if found.get("model", self.model) != self.model:
            raise BodyRefused("The model relay passes on one model only: the one that the request names.")
        for name in WHOLE:
            number = found.get(name)
            if number is not None and (type(number) is not int or not 0 <= number <= MAX_NUMBER):
                raise BodyRefused(f"{name} is a whole number from 0 to {MAX_NUMBER:,}, without a point or quotes.")
        if self.with_tools:
            return
        self._source(found)
        if "tools" in found:
            self._tools(found["tools"])
        kind = found.get("type")
        if "type" in found and not (isinstance(kind, str) and kind in KINDS[self.provider]):
            raise BodyRefused(f"The model relay does not pass on the type {str(kind)[:60]}: {_why()}")

    def _tools(self, tools):
        if not isinstance(tools, list | None):
            raise BodyRefused("The tools are no list.")
        for tool in tools or ():
            kind = tool.get("type") if isinstance(tool, dict) else "?"
            is_own = kind is None and self.provider == "anthropic"  # without a type it is the agent's own
            if not is_own and not (isinstance(kind, str) and kind in KINDS[self.provider]):
                raise BodyRefused(f"The model relay does not pass on the tool {str(kind)[:60]}: {_why()}")

    def _source(self, found: dict):
        if found.get("type") in SOURCES or found.get("file_id"):
            raise BodyRefused(f"The model relay passes on no files and addresses: {_why()}")
        for name in ADDRESSES:
            address = found.get(name)
            address = address.get("url") if isinstance(address, dict) else address
            if isinstance(address, str) and not address.startswith("data:"):
                raise BodyRefused(f"The model relay passes on no addresses: {_why()}")


def _is_data(found: dict, name: str, depth: int) -> bool:
    """Return whether a field holds data: a schema, or the arguments of a call, whatever their fields are called."""
    is_call = depth > 0 and name in ("input", "arguments") and found.get("type") in CALLED_WITH
    return name in DATA or is_call


def allowed_betas(provider: str, header: str) -> str:
    """Return the betas of a request's header that are allowed; the others are left out."""
    return ",".join(name for name in (part.strip() for part in header.split(",")) if name in BETAS[provider])


def _why() -> str:
    return "it would reach the network past the list of this workspace. The environment's models can allow it (+tools)."


def written(body: dict) -> bytes:
    """Return the body as it is sent: written anew, so that the provider reads what was checked."""
    return json_text.dumps(body, separators=(",", ":")).encode()

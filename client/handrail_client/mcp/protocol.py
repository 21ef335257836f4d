"""The two generations of MCP: with a greeting (`initialize`, up to 2025-11-25), and with `_meta` in each request.

Which one a request is of stands in the request itself, so the gate and the server keep no state for it.
"""

from typing import Any

WITH_META = ("2026-07-28",)  # versions of the protocol whose requests say all of themselves, the newest first
WITH_GREETING = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
PREFIX = "io.modelcontextprotocol/"
VERSION, CLIENT, CAPABILITIES = f"{PREFIX}protocolVersion", f"{PREFIX}clientInfo", f"{PREFIX}clientCapabilities"
SERVER = f"{PREFIX}serverInfo"
COMPLETE, INPUT_REQUIRED = "complete", "input_required"
GATE = {"name": "handrail-mcp-gate", "version": "1"}
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022
# What a client sends with a call that it makes again because the tool has asked its user something.
OF_A_RETRY = ("inputResponses", "requestState")


def params_of(message: Any) -> dict:
    params = message.get("params") if isinstance(message, dict) else None
    return params if isinstance(params, dict) else {}


def meta_of(message: Any) -> dict:
    meta = params_of(message).get("_meta")
    return meta if isinstance(meta, dict) else {}


def has_meta(message: Any) -> bool:
    """Whether the request is of the generation that says its version by itself."""
    return VERSION in meta_of(message)


def params_like(message: Any, params: dict) -> dict:
    """Return params of a request of our own to the server of this one, in the name of its client."""
    meta = meta_of(message)
    if VERSION not in meta:
        return params
    own = {VERSION: meta[VERSION], CLIENT: meta.get(CLIENT, GATE), CAPABILITIES: meta.get(CAPABILITIES, {})}
    return params | {"_meta": own}


def complete(message: Any, result: dict) -> dict:
    """Return our own result in the form of the generation that the request is of."""
    return {"resultType": COMPLETE} | result if has_meta(message) else result


def kind_of(result: Any) -> str:
    """Return the `resultType`; a server of the older generation sends none, and its results are complete."""
    return result.get("resultType", COMPLETE) if isinstance(result, dict) else COMPLETE


def is_retry(message: Any) -> bool:
    return any(key in params_of(message) for key in OF_A_RETRY)

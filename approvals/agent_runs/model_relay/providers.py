"""The providers of models that the relay knows: their fixed addresses, keys, errors, and how they tell what was used.

Which tools run at the provider, and which parts of a body make it fetch something, is in `bodies.py`.
"""

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True)
class Used:
    """Tokens of one call: read (without those from the provider's cache), read from its cache, written."""

    tokens_in: int = 0
    tokens_cached: int = 0
    tokens_out: int = 0


class Provider(ABC):
    """One provider's API, as far as the relay lets it be used."""

    name: str
    title: str
    upstream: str  # unless HANDRAIL_MODEL_UPSTREAMS names another
    asks = frozenset[tuple[str, str]]()  # (method, path) of calls that cost tokens
    counts = frozenset[tuple[str, str]]()  # (method, path) of calls that only count
    version_header = ""  # a further request header that reaches the provider, a date
    beta_header = ""  # another, of which only the betas that `bodies.py` lists
    default_output: int  # tokens that an answer can have if the request names no limit
    output_field: str  # of the request

    @abstractmethod
    def smallest(self, model: str) -> tuple[str, dict]:
        """Return (path, body) of the cheapest request that has the model answer."""

    @abstractmethod
    def key_headers(self, key: str) -> dict[str, str]:
        """Return the headers that authorize a request."""

    @abstractmethod
    def error(self, status: int, message: str) -> bytes:
        """Return the body of an error in the provider's own shape."""

    @abstractmethod
    def read_usage(self, event: dict, used: Used | None) -> Used | None:
        """Return `used` updated with the usage in an event of the stream, or in a whole response."""


class Anthropic(Provider):
    name, title, upstream = "anthropic", "Anthropic", "https://api.anthropic.com"
    asks = frozenset({("POST", "/v1/messages")})
    counts = frozenset({("POST", "/v1/messages/count_tokens")})
    version_header, beta_header = "anthropic-version", "anthropic-beta"
    default_output, output_field = 32_000, "max_tokens"

    def smallest(self, model: str) -> tuple[str, dict]:
        said = [{"role": "user", "content": "Say OK."}]
        return "/v1/messages", {"model": model, "max_tokens": 1, "messages": said}

    def key_headers(self, key: str) -> dict[str, str]:
        return {"x-api-key": key}

    def error(self, status: int, message: str) -> bytes:
        kinds = {401: "authentication_error", 404: "not_found_error", 413: "request_too_large", 403: "permission_error"}
        kind = kinds.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()

    def read_usage(self, event: dict, used: Used | None) -> Used | None:
        message = event.get("message") if event.get("type") == "message_start" else event
        told = message.get("usage") if isinstance(message, dict) else None
        if not isinstance(told, dict):
            return used
        before = used or Used()
        read = _number(told, "input_tokens") + _number(told, "cache_creation_input_tokens")
        return Used(
            read or before.tokens_in,
            _number(told, "cache_read_input_tokens") or before.tokens_cached,
            _number(told, "output_tokens") or before.tokens_out,
        )


class OpenAI(Provider):
    name, title, upstream = "openai", "OpenAI", "https://api.openai.com"
    asks = frozenset({("POST", "/v1/responses")})
    default_output, output_field = 32_000, "max_output_tokens"

    def smallest(self, model: str) -> tuple[str, dict]:
        # 16 is the least that the provider takes.
        return "/v1/responses", {"model": model, "max_output_tokens": 16, "input": "Say OK.", "store": False}

    def key_headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

    def error(self, status: int, message: str) -> bytes:
        kind = "invalid_request_error" if status < 500 else "server_error"
        return json.dumps({"error": {"type": kind, "code": "handrail", "param": None, "message": message}}).encode()

    def read_usage(self, event: dict, used: Used | None) -> Used | None:
        response = event.get("response") if isinstance(event.get("response"), dict) else event
        told = response.get("usage")
        if not isinstance(told, dict):
            return used
        details = told.get("input_tokens_details")
        cached = _number(details, "cached_tokens") if isinstance(details, dict) else 0
        return Used(max(0, _number(told, "input_tokens") - cached), cached, _number(told, "output_tokens"))


def _number(told: dict, name: str) -> int:
    value = told.get(name)
    return value if type(value) is int and 0 <= value < 1 << 40 else 0


PROVIDERS: dict[str, Provider] = {provider.name: provider for provider in (Anthropic(), OpenAI())}


class UsageReader:
    """Reads what a call used from its response as it passes by: server-sent events, or one JSON object."""

    MAX_LINE = 8 << 20  # bytes; the last event of OpenAI holds the whole response

    def __init__(self, provider: Provider, *, is_stream: bool):
        self.provider, self.is_stream = provider, is_stream
        self.used: Used | None = None
        self._rest = b""
        self._skips = False  # within a line that is too long

    def feed(self, piece: bytes):
        if not self.is_stream:
            if len(self._rest) <= 4 * self.MAX_LINE:
                self._rest += piece
            return
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            if not self._skips and line.startswith(b"data:") and b'"usage"' in line:
                self._read(line[5:])
            self._skips = False
        if len(self._rest) > self.MAX_LINE:
            self._rest, self._skips = b"", True

    def end(self) -> Used | None:
        """Return what was used; None if the response did not say."""
        if not self.is_stream:
            self._read(self._rest)
        return self.used

    def _read(self, text: bytes):
        try:
            event = json.loads(text)
        except (ValueError, RecursionError):
            return
        if isinstance(event, dict):
            self.used = self.provider.read_usage(event, self.used)

"""A message as a hook or a transcript reports it, before it is stored."""

from dataclasses import dataclass, replace
from datetime import datetime

from dashboard.text.bounded_names import bounded

MAX_ID = 200


@dataclass(frozen=True)
class Line:
    """A message as a hook or a row of a transcript tells it. `content` is a text, or plain JSON of a call."""

    role: str
    kind: str
    content: object = ""
    at: datetime | None = None
    native_id: str = ""
    parent: str = ""
    tool: str = ""
    call_id: str = ""
    ok: bool | None = None
    model: str = ""
    is_hosted: bool = False  # the model's provider makes the call, so no hook is asked about it
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0

    @property
    def key(self) -> str | None:
        """The id that is the same from hook and transcript; None if only the text tells that they are the same."""
        if self.call_id and self.kind in ("call", "result"):
            return bounded(f"{self.kind}:{self.call_id}", MAX_ID)
        return bounded(self.native_id, MAX_ID) or None

    @property
    def call(self) -> str:
        """The id of the call as rows have it."""
        return bounded(self.call_id, MAX_ID)

    def with_tokens(self, tokens_in: int, tokens_out: int, tokens_cached: int) -> "Line":
        return replace(self, tokens_in=tokens_in, tokens_out=tokens_out, tokens_cached=tokens_cached)

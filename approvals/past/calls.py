"""One call that an agent made, as its transcript tells it."""

import hashlib
import json
from dataclasses import dataclass


@dataclass(frozen=True)
class PastCall:
    """A tool call: `root` is the folder that its session began in, `at` the time in seconds since 1970."""

    agent: str
    tool: str
    arguments: dict
    cwd: str
    root: str
    at: float
    call_id: str = ""

    @property
    def key(self) -> bytes:
        """The same for calls that a policy cannot tell apart."""
        told = json.dumps([self.tool, self.arguments, self.cwd, self.root], sort_keys=True)
        return hashlib.sha256(told.encode("utf-8", "surrogatepass")).digest()

    @property
    def text(self) -> str:
        """The command, file or address that the call is about."""
        for name in ("command", "file_path", "notebook_path", "path", "url", "pattern"):
            if isinstance(self.arguments.get(name), str):
                return self.arguments[name]
        return ""

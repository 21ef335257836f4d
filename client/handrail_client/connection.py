"""Where the desk is, and who asks: from the environment or from a file that only its owner can read."""

import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from handrail_client.errors import HandrailError


@dataclass(frozen=True)
class Connection:
    """The address of a desk, an agent's or a person's token, and the workspace whose calls these are."""

    url: str
    token: str = field(repr=False)
    workspace: str | None = None

    def __post_init__(self):
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise HandrailError(f"The address of the desk must be like http://127.0.0.1:8000, and is {self.url!r}.")
        if not self.token.isascii() or not self.token.isprintable() or not self.token.strip():
            raise HandrailError("The token is empty or has characters that no token has.")

    @classmethod
    def from_environment(cls) -> "Connection":
        """Read HANDRAIL_URL, HANDRAIL_TOKEN and HANDRAIL_WORKSPACE, or the file that HANDRAIL_CONNECTION names."""
        if path := os.environ.get("HANDRAIL_CONNECTION"):
            return cls.from_file(path)
        missing = [name for name in ("HANDRAIL_URL", "HANDRAIL_TOKEN") if not os.environ.get(name)]
        if missing:
            raise HandrailError(f"Set {' and '.join(missing)}, or HANDRAIL_CONNECTION to a file with both.")
        return cls(
            os.environ["HANDRAIL_URL"], os.environ["HANDRAIL_TOKEN"], os.environ.get("HANDRAIL_WORKSPACE") or None
        )

    @classmethod
    def from_file(cls, path: str | Path) -> "Connection":
        """Read `{"url": …, "token": …, "workspace": …}`. A file that others can read is refused."""
        try:
            with open(path, encoding="utf-8") as file:
                if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                    raise HandrailError(f"Others can read {path}, which has a token in it: chmod 600 {path}")
                told = json.load(file)
            return cls(told["url"], told["token"], told.get("workspace"))
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise HandrailError(f"{path} is no connection: {error!r}") from None

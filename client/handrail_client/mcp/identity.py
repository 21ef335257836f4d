"""Which server it is, and how it describes its tools. An approval is for both."""

import hashlib
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from handrail_client import json_text

MAX_SHOWN = 500
MAX_SCHEMA = 60_000  # characters; the desk refuses larger ones
MAX_PAGES = 50
# Words of a command line that start a server and do not name it.
LAUNCHERS = {"npx", "bunx", "uvx", "uv", "pipx", "node", "deno", "bun", "docker", "podman", "sh", "bash", "env", "run"}
LAUNCHERS |= {"exec", "tool", "x", "dlx", "pnpm", "yarn", "npm"}


@dataclass(frozen=True)
class Server:
    """A server as approvals know it: `runs` is its command line or address, `sha256` of its entry in settings."""

    name: str
    runs: str
    sha256: str

    @classmethod
    def of_command(cls, argv: list[str], name: str | None = None) -> "Server":
        entry = {"command": argv[0], "args": argv[1:]}
        return cls(plain_name(name or _named_by(argv)), shlex.join(argv)[:MAX_SHOWN], digest(entry))

    @classmethod
    def of_address(cls, url: str, name: str | None = None) -> "Server":
        shown = re.sub(r"//[^/\s@]*@", "//", url.partition("?")[0].partition("#")[0])
        host = urlsplit(url).hostname or "server"
        return cls(plain_name(name or host), shown[:MAX_SHOWN], digest({"type": "http", "url": url}))

    def tool(self, name: str) -> str:
        """Return the name that policies know the tool by."""
        return f"mcp__{self.name}__{name}"


def plain_name(name: str) -> str:
    """Return the name with letters that the names of tools have, and no `__`, which divides server and tool."""
    return re.sub(r"_{2,}", "_", re.sub(r"[^A-Za-z0-9_-]", "_", name)).strip("_-") or "server"


def _named_by(argv: list[str]) -> str:
    def is_launcher(word: str) -> bool:
        return word.startswith("-") or word in LAUNCHERS or re.fullmatch(r"python[\d.]*", word) is not None

    names = [word.rstrip("/").rpartition("/")[2] for word in argv]
    name = next((name for name in names if name and not is_launcher(name)), names[0])
    return re.sub(r"(?<=.)@.*|\.(?:py|m?js|ts|exe)$", "", name)


def digest(value: Any) -> str:
    """Return the SHA-256 by which the desk knows a server's entry."""
    text = json_text.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# Of a schema that has only these, an object can have further properties.
OPEN = {"$schema", "$defs", "title", "description", "type", "properties", "required", "additionalProperties"}


@dataclass(frozen=True)
class Definition:
    """How the server describes one tool now. `told` is None if it does not say, or its list can't be read."""

    told: Any = field(default=None, repr=False)

    @classmethod
    def read(cls, tool: str, page: Callable[[dict], Any]) -> "Definition":
        """Ask for all pages; `page` gets the params of a `tools/list` and returns the result, None if there is none."""
        found: list[dict] = []
        params: dict = {}
        for _ in range(MAX_PAGES):
            result = page(params)
            tools = result.get("tools") if isinstance(result, dict) else None
            if not isinstance(tools, list):
                return cls()
            found += [each for each in tools if isinstance(each, dict) and each.get("name") == tool]
            if not isinstance(result.get("nextCursor"), str):
                return cls(found[0] if len(found) == 1 else found or None)
            params = {"cursor": result["nextCursor"]}
        return cls()

    @property
    def sha256(self) -> str:
        """The digest of the whole definition: another description or schema is another tool.

        That of `null` says that nobody knows how the tool is described; the desk counts it as changed.
        """
        told = self.told
        return digest({key: each for key, each in told.items() if key != "_meta"} if isinstance(told, dict) else told)

    @property
    def input_schema(self) -> Any:
        """The schema of the arguments, as the server says it."""
        return self.told.get("inputSchema") if isinstance(self.told, dict) else None

    @property
    def takes_a_note(self) -> bool:
        """Whether a structured result may have a further text, by all that the server says of its results."""
        schema = self.told.get("outputSchema", {}) if isinstance(self.told, dict) else None
        return isinstance(schema, dict) and schema.keys() <= OPEN and schema.get("additionalProperties", True) is True

    @property
    def schema(self) -> dict | None:
        """The schema of the arguments, if it is one that the desk takes."""
        schema = self.input_schema
        is_object = isinstance(schema, dict) and schema.get("type", "object") == "object"
        if not is_object or not isinstance(schema.get("properties", {}), dict):
            return None
        return schema if _is_unicode(schema) and len(json_text.dumps(schema)) <= MAX_SCHEMA else None


def _is_unicode(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_is_unicode(each) for item in value.items() for each in item)
    if isinstance(value, list):
        return all(map(_is_unicode, value))
    return not isinstance(value, str) or not any("\ud800" <= character <= "\udfff" for character in value)

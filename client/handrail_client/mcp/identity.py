"""Which server it is, and how it describes its tools. An approval is for both."""

import hashlib
import json
import re
import shlex
import threading
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

MAX_SHOWN = 500
MAX_SCHEMA = 60_000  # characters; the desk refuses larger ones
MOST = 2**53  # JSON numbers beyond it have no canonical form
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
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Definitions:
    """The tools as the server last described them."""

    def __init__(self):
        self._lock = threading.Lock()
        self._tools: dict[str, dict] = {}
        self._is_stale = False

    def learn(self, result: Any):
        """Take in the result of a `tools/list`."""
        tools = result.get("tools") if isinstance(result, dict) else None
        with self._lock:
            for tool in tools if isinstance(tools, list) else []:
                if isinstance(tool, dict) and isinstance(tool.get("name"), str):
                    self._tools[tool["name"]] = {key: value for key, value in tool.items() if key != "_meta"}
            self._is_stale = False

    def doubt(self):
        """Remember that the server has said that its tools changed."""
        with self._lock:
            self._is_stale = True

    def knows(self, tool: str) -> bool:
        with self._lock:
            return tool in self._tools and not self._is_stale

    def sha256(self, tool: str) -> str:
        """Return the digest of the whole definition: another description or schema is another tool."""
        with self._lock:
            return digest(self._tools.get(tool))

    def schema(self, tool: str) -> dict | None:
        """Return the schema of the arguments, if it is one that the desk takes."""
        with self._lock:
            schema = (self._tools.get(tool) or {}).get("inputSchema")
        is_object = isinstance(schema, dict) and schema.get("type", "object") == "object"
        if not is_object or not isinstance(schema.get("properties", {}), dict):
            return None
        return schema if _has_canonical_form(schema) and len(json.dumps(schema)) <= MAX_SCHEMA else None


def _has_canonical_form(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_has_canonical_form(each) for item in value.items() for each in item)
    if isinstance(value, list):
        return all(map(_has_canonical_form, value))
    if isinstance(value, str):
        return not any("\ud800" <= character <= "\udfff" for character in value)
    return not isinstance(value, (int, float)) or abs(value) < MOST

"""What is known of the tools of the MCP servers that people connect: a TOML file for each server.

A file has `[server]`: its `name`; the `aliases` under which people configure it; the `packages` (also images and hosts)
that it is started from; and `made_from`, the published versions whose schemas were read. `[tools.NAME]` has:

* `deed`: a verb of `title_words.DEEDS` and a thing, "create issue"; `deeds`: others by the value of an argument,
  `{method = {update = "change issue"}}`
* `number`, `label`, `place`, `to`, `on`: the arguments that name the object, the first that has a value; `owner/repo`
  joins two, `parent.page_id` is inside an object. `detail`: more arguments that the title names
* `count`: a list whose length is told. `statement`: arguments with SQL
* `amount`, `currency`, and `unit`: "minor" if the server counts the currency's smallest unit, else "major"
* `effect`: one of EFFECTS. `undo`: one of UNDO
* `arguments`: all that the schema has, with a "!" behind each that is required

A file gives words. No call runs because of one: see `approvals/policy/mcp.py` and decision 136.
"""

import re
import shlex
import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
EFFECTS = ("read", "write", "data", "delete", "message", "money", "code", "access", "screen")
# yes: it changes nothing. outside: another call at the service takes it back. partly: something of it stays.
UNDO = ("yes", "outside", "partly", "no")
TOOL = re.compile(r'^\[tools\.("?)([\w.:/-]+)\1\]$', re.MULTILINE)
STARTERS = ("npx", "bunx", "pnpx", "uvx")
CONTAINERS = ("docker", "podman")
TRUSTED_ORIGINS = ("user", "local", "administrator")


@dataclass(frozen=True)
class Tool:
    """A tool of a server: tuples of alternatives; each of number, place, to and on is a tuple of joined arguments."""

    deed: str
    effect: str
    undo: str
    arguments: frozenset
    required: frozenset
    deeds: dict = field(default_factory=dict)
    number: tuple = ()
    label: tuple = ()
    place: tuple = ()
    to: tuple = ()
    on: tuple = ()
    detail: tuple = ()
    statement: tuple = ()
    count: str = ""
    amount: str = ""
    currency: str = ""
    unit: str = "major"

    def deed_of(self, given):
        """Return (verb, thing) of a call with these arguments."""
        for name, by_value in self.deeds.items():
            if isinstance(given.get(name), str) and given[name] in by_value:
                return _parted(by_value[given[name]])
        return _parted(self.deed)

    def all_deeds(self):
        """Return (verb, thing) of each deed that it can do."""
        others = [deed for by_value in self.deeds.values() for deed in by_value.values()]
        return [_parted(deed) for deed in (self.deed, *others)]


class Known(NamedTuple):
    """A tool in its server's file, and what says that it is this server: "runs", "name" or "arguments"."""

    tool: Tool
    service: str
    sure: str


@dataclass(frozen=True)
class Server:
    """One file: tools by name, aliases as sets of words."""

    name: str
    aliases: tuple
    packages: tuple
    made_from: tuple
    tools: dict


def find(server, tool, given, entries=None):
    """Return what is known of a call's tool as Known; None if nothing is, or two servers' files differ about it.

    `entries`: what the agent's settings have under the server's name, {origin, runs, …} each; None if nobody looked.
    """
    files = _index().get(tool, ())
    if not files or not isinstance(given, dict):
        return None
    candidates = [part_of(name, tool) for name in files]
    found = [(_sureness(about, server, about.tools[tool], given, entries), about) for about in candidates]
    found = [(rank, about) for rank, about in found if rank[0]]
    best = max((rank for rank, _ in found), default=None)
    first = [about for rank, about in found if rank == best]
    if len({about.tools[tool].deed for about in first}) != 1:
        return None
    return Known(first[0].tools[tool], first[0].name, ("", "arguments", "name", "runs")[best[0]])


def effects_of(tool):
    """Return the effects of all tools of this name, whatever their server."""
    return {part_of(name, tool).tools[tool].effect for name in _index().get(tool, ())}


def _sureness(about, server, tool, given, entries):
    """Return (3 by what the settings run, 2 by the server's name, 1 by name and arguments, 0; words of the alias)."""
    entries = [each for each in entries or () if isinstance(each, dict)]
    if entries and all(_runs(about, each) for each in entries):
        return 3, 0
    said = set(re.split(r"[^a-z0-9]+", server.casefold()))
    words = max((len(alias) for alias in about.aliases if alias <= said), default=0)
    if words and not entries:
        return 2, words
    fits = tool.required <= given.keys() <= tool.arguments
    return (1, words) if fits and (given or words) else (0, 0)


def _runs(about, entry):
    """Return whether an entry of the person's own settings starts one of the server's packages, or has its address."""
    runs = str(entry.get("runs") or "")
    if entry.get("origin") not in TRUSTED_ORIGINS:
        return False
    if "://" in runs.split(" ")[0]:
        host = re.match(r"https://([\w.-]+)(?:/|$)", runs)
        return host is not None and host[1] in about.packages
    try:
        words = shlex.split(runs)
    except ValueError:
        return False
    program = words[0].rpartition("/")[2] if words else ""
    if program in CONTAINERS:
        return any(_bare(word) in about.packages for word in words)
    started = [program] if program not in STARTERS else [word for word in words[1:] if not word.startswith("-")][:1]
    return any(_bare(word) in about.packages for word in started)


def _bare(word):
    """Return a package or an image without its version: `@scope/name@1.2` and `image:tag`."""
    return re.sub(r"(?<=.)[@:][\w.^~*-]*$", "", word)


@lru_cache
def _index():
    """Return {tool: {name of a file that has it: its text there}}; no more of a file is parsed than a call needs."""
    found = {}
    for name in all_names():
        text = _text(name)
        headers = list(TOOL.finditer(text))
        for header, following in zip(headers, [*headers[1:], None], strict=True):
            end = following.start() if following else len(text)
            found.setdefault(header[2], {})[name] = text[header.start() : end]
    return found


def _text(name):
    return (FOLDER / f"{name}.toml").read_text(encoding="utf-8")


@lru_cache(maxsize=512)
def part_of(name, tool):
    """Return the Server of a file with one of its tools."""
    return _server(_head(name) + _index()[tool][name])


@lru_cache
def _head(name):
    return _text(name).partition("[tools.")[0]


def load(name):
    """Return the whole Server of a file. TypeError or KeyError for a wrong field."""
    return _server(_text(name))


def _server(text):
    data = tomllib.loads(text)
    head = data["server"]
    aliases = tuple(frozenset(re.split(r"[^a-z0-9]+", alias)) for alias in head["aliases"])
    tools = {name: _tool(**fields) for name, fields in data["tools"].items()}
    return Server(head["name"], aliases, tuple(head["packages"]), tuple(head["made_from"]), tools)


def all_names():
    """Return the names of all files."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def _tool(*, arguments="", **fields):
    named = arguments.split()
    for key in ("number", "place", "to", "on"):
        fields[key] = tuple(tuple(part.split("/")) for part in fields.get(key, "").split())
    for key in ("label", "detail", "statement"):
        fields[key] = tuple(fields.get(key, "").split())
    required = frozenset(name[:-1] for name in named if name.endswith("!"))
    return Tool(arguments=frozenset(name.rstrip("!") for name in named), required=required, **fields)


def _parted(deed):
    verb, _, thing = deed.partition(" ")
    return verb, thing

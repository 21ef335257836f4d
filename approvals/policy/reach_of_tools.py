"""Where a call of a tool other than the shell acts: by its address, or by arguments such as `environment`."""

import re
from decimal import Decimal, InvalidOperation

from . import mcp_servers, title_words
from .conditions import Around, Facts
from .deeds import JOINING, LOSING, amount_of, moves_money
from .leaving import DEED
from .programs.queries import sql_problem
from .reach import NOWHERE, Reach, of_address
from .rules import FILE_READERS, FILE_WRITERS
from .shell_words import names
from .targets import Destination, Name
from .tools import QUIET, SUB_AGENTS

KIND_OF = {
    **dict.fromkeys(("environment", "env", "stage", "deploy_env", "target", "target_environment", "tier"), "env"),
    **dict.fromkeys(("branch", "ref", "base", "target_branch", "branch_name"), "branch"),
    **dict.fromkeys(("database", "db", "dbname", "database_name", "schema"), "db"),
    **dict.fromkeys(("context", "cluster", "kube_context", "kubecontext", "cluster_name"), "kube"),
    **dict.fromkeys(("profile", "aws_profile"), "aws"),
    **dict.fromkeys(("project", "project_id", "gcp_project"), "gcloud"),
    **dict.fromkeys(("subscription", "subscription_id"), "azure"),
    **dict.fromkeys(("app", "app_name", "application"), "app"),
    **dict.fromkeys(("workspace",), "terraform"),
    "namespace": "namespace",
}
ADDRESSES = names("host hostname url uri endpoint dsn connection_string database_url server base_url")
SHOWING = ("describe", "show", "count", "check", "status", "view")
STATEMENTS = ("sql", "query", "statement")
CHANGING = {word for word, verb in title_words.VERBS.items() if verb not in title_words.READING} | {*LOSING, *JOINING}
MAX_VALUES = 200
# What amount_of tells: all digits that were sent, which are never less than what moves.
AMOUNT = re.compile(r"([\d,.]+)(?: ([A-Z]{3,5}))?(?: \([a-z' ]+\))?")


def facts_of_call(tool, arguments, context):
    """Return the Facts of a call of any tool except the shell, for the conditions of a policy."""
    around = Around.of(context)
    if tool in FILE_WRITERS or tool in FILE_READERS or tool in QUIET or tool in SUB_AGENTS:
        return Facts(around, NOWHERE, tool)
    if tool in ("WebFetch", "WebSearch"):
        return Facts(around, _of_page(arguments, context), tool)
    server, name, given = _parts(tool, arguments, context)
    return Facts(around, _of_arguments(server, name, given), f"mcp__{server}" if server else tool)


def _of_page(arguments, context):
    more = context.get("redirects_to")
    hops = [arguments.get("url"), *(more if isinstance(more, (list, tuple)) else [more] if more else [])]
    hosts = [name for hop in hops if isinstance(hop, str) for name in of_address(hop)[:1]]
    return Reach(tuple(Destination((name,)) for name in hosts), reads=True)


def _parts(tool, arguments, context):
    """Return (server, tool, arguments) of a call; the server is "" for one that is no tool of MCP."""
    if tool == "mcp":
        given = arguments.get("arguments")
        return str(arguments.get("server") or "?"), str(arguments.get("tool")), given if isinstance(given, dict) else {}
    if not tool.startswith("mcp__"):
        return "", tool, arguments
    known = context.get("mcp_server")
    rest = tool.removeprefix("mcp__")
    if isinstance(known, str) and rest.startswith(known + "__"):
        return known, rest[len(known) + 2 :], arguments
    server, _, name = rest.partition("__")
    return server, name, arguments


def _of_arguments(server, name, given):
    """Return where a tool with these arguments acts: each that names a place is a name of the one destination."""
    found, hints = ([Name("mcp", server)] if server else []), [name]
    for key, value in _values(given):
        if key in ADDRESSES and isinstance(value, str):
            found += of_address(value)
        elif key in KIND_OF and isinstance(value, (str, int)) and not isinstance(value, bool):
            found.append(Name(KIND_OF[key], str(value).removeprefix("refs/heads/") or None))
        elif isinstance(value, str) and len(value) <= 100 and " " not in value:
            hints.append(value)
    words = re.split(r"[\s_.-]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name).lower())
    deploys = any(map(DEED.fullmatch, words)) and not any(each.kind != "mcp" for each in found)
    reads = _reads(server, name, words, given)
    place = Destination(tuple(dict.fromkeys(found)), tuple(dict.fromkeys(hints)), deploys and not reads)
    amounts = _amounts(server, name, given)
    return Reach((place,), reads, amounts)


def _values(given):
    """Yield (key in lower case, value) of the arguments and of objects and lists in them."""
    todo = [(str(key), value) for key, value in given.items()]
    for _ in range(MAX_VALUES):
        if not todo:
            return
        key, value = todo.pop(0)
        if isinstance(value, dict):
            todo += [(str(inner), each) for inner, each in value.items()]
        elif isinstance(value, (list, tuple)):
            todo += [(key, each) for each in value]
        else:
            yield key.lower(), value


def _reads(server, name, words, given):
    """Return whether a tool only reads, by what is known of it, or by its name and the statement that it is given."""
    statements = [given[key] for key in STATEMENTS if isinstance(given.get(key), str)]
    if any(sql_problem(text) is not None for text in statements if re.match(r"\s*\w+\s", text)):
        return False
    if known := mcp_servers.find(server, name, given):
        return known.tool.effect == "read"
    begins = title_words.VERBS.get(words[0]) in title_words.READING or words[0] in (
        "describe",
        "show",
        "count",
        "check",
        "status",
        "view",
    )
    return begins and not CHANGING & set(words[1:])


def _amounts(server, name, given):
    text = amount_of("mcp", {"server": server or "-", "tool": name, "arguments": given})
    match = AMOUNT.fullmatch(text)
    if not match:
        return ((None, ""),) if text or moves_money(name) else ()
    try:
        return ((Decimal(match[1].replace(",", "")), match[2] or ""),)
    except InvalidOperation:
        return ((None, ""),)

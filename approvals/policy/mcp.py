"""MCP tools: a rule names the server exactly, the tool with wildcards, and one argument checked by its kind."""

import re

from . import mcp_servers
from .coverage import decide_call
from .deeds import deed
from .globs import Glob
from .hidden_characters import hidden_in
from .programs.queries import sql_problem
from .verdict import UNDO, Verdict, reason
from .web import BadAddress, parts_of

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
UNKNOWN = "Handrail doesn't know what this tool does"
# What a tool does that is known, in the words of a reason: {effect: words}.
DOES = {
    "read": "only reads", "write": "changes something there", "data": "runs statements on the data there",
    "delete": "deletes something there", "message": "sends something to other people", "money": "moves money",
    "code": "runs programs or jobs", "access": "changes who has access", "screen": "acts on a page like a person",
}  # fmt: skip
PATH_LIKE = re.compile(r"(?:~|/|\.\.?/|[A-Za-z]:\\|file:)")


def classify(tool, arguments, policy, world, context):
    """Judge a call by `mcp__server__tool` with its arguments, or by {server, tool, arguments} under the name `mcp`."""
    if tool == "mcp":
        server, name, given = arguments.get("server"), arguments.get("tool"), arguments.get("arguments")
        given = {} if given is None else given
    else:
        server, name, given = *_split(tool, context), arguments
    if not (_plain(server) and _plain(name) and isinstance(given, dict)):
        return Verdict(
            "high", [reason("high", "its server or tool is not named plainly")], None, "unknown", "Use an MCP tool"
        )
    entries = context.get("mcp_servers")
    known = mcp_servers.find(server, name, given, entries)
    outside = _leaves(given, world)
    other = other_server(server, entries, policy.trust.servers)
    unsure = outside or other
    says = UNKNOWN if known is None or other else _known(known, server, name)

    def covers(rule):
        return unsure or gap(rule, server, name, given, world)

    def meets(rule):
        return _meets(rule, server, name, given)

    title, undo = deed(server, name, given, entries), _undo(known)
    return decide_call(
        policy, "high", f"{says}: {unsure}" if unsure else says, title=title, undo=undo, meets=meets,
        covers=covers, tools=None, what="mcp", targets=(f"{server}/{name}",),
    )  # fmt: skip


def _known(known, server, name):
    """Return what a known tool does, and on what that rests: a server can give its tools whatever names it likes."""
    words = f"{name} of {known.service} {DOES[known.tool.effect]}"
    return words if known.sure == "runs" else f"if {server} is {known.service}'s server, {words}"


def _undo(known):
    """Return one of UNDO. "yes" needs settings of the person's own that start this very server: it allows one tap."""
    if known is None:
        return "unknown"
    undo = "partly" if known.tool.undo == "outside" else known.tool.undo
    worst = {"runs": "yes", "name": "partly", "arguments": "unknown"}[known.sure]
    if undo == "yes" and known.sure != "runs":
        return "unknown"
    return max(undo, worst, key=UNDO.index)


def other_server(name, found, trusted):
    """Return why the server of this name may be another than a rule means, or None.

    `found`: its entries in the agent's settings, each {name, origin, runs, sha256}; None if nobody looked. `trusted`:
    the servers that the policy names.
    """
    meant = [each for each in trusted if each.name == name]
    if found is None and not meant:
        return None
    entries = [each for each in found or () if isinstance(each, dict)]
    if unread := next((each for each in entries if each.get("origin") == "unreadable"), None):
        return f"{str(unread.get('runs'))[:200]} cannot be read, so which server {name} is cannot be told"
    if meant and not entries:
        return f"no settings say which server {name} is"
    named = [{"runs": each.runs, "sha256": each.sha256} for each in meant]
    for each in entries:
        identity = {"runs": each.get("runs"), "sha256": each.get("sha256")}
        shown = f"{str(each.get('runs'))[:200]} (sha256 {str(each.get('sha256'))[:64]})"
        if meant and identity not in named:
            return f"the server {name} is now {shown}, not the one that the policy trusts"
        if not meant and each.get("origin") not in ("user", "local", "administrator"):
            return f"the project itself says that the server {name} is {shown}, which trust.servers can name"
    return None


def _plain(name):
    return isinstance(name, str) and NAME.fullmatch(name) is not None


def _split(tool, context):
    """Split a joined name into server and tool; (None, None) if the split is ambiguous."""
    rest = tool.removeprefix("mcp__")
    known = context.get("mcp_server")
    if isinstance(known, str) and rest.startswith(known + "__"):
        return known, rest[len(known) + 2 :]
    parts = rest.split("__")
    return (parts[0], parts[1]) if len(parts) == 2 else (None, None)


def _leaves(given, world):
    """Return the argument, at any depth, that names a place outside the workspace or hides characters; or None."""
    todo, seen = [(str(key), value) for key, value in given.items()], 0
    while todo and seen < 2000:
        seen += 1
        key, value = todo.pop()
        if isinstance(value, dict):
            todo += [(str(k), v) for k, v in value.items()]
        elif isinstance(value, (list, tuple)):
            todo += [(key, v) for v in value]
        elif isinstance(value, str):
            if hidden_in(value, prose=True):
                return f"{key} holds hidden characters"
            if (PATH_LIKE.match(value) or "/../" in value) and "\n" not in value and len(value) < 4096:
                place = world.place(value)
                if not place.inside or place.secret or place.protected:
                    return f"{key} names {value[:60]}"
    return "it holds more than can be looked through" if todo else None


def gap(rule, server, name, given, world):
    """Return why a rule `mcp__server__tool(argument:pattern)` does not cover this call, or None."""
    if not _meets_name(rule, server, name, exact=True):
        return "another tool"
    if rule.spec is None:
        return None
    key, colon, pattern = rule.spec.partition(":")
    value = given.get(key)
    if not colon or not isinstance(value, str | int | float):
        return f"{key} is no text and no number"
    other = next((k for k, v in given.items() if k != key and not isinstance(v, (int, float, type(None)))), None)
    if other is not None or any(isinstance(v, bool) for v in given.values()):
        return f"the rule does not name the argument {other}"
    if not isinstance(value, str):
        # By its digits alone: a pattern such as 5* would cover 5000000.
        return None if str(value) == pattern else f"{key} is a number that the rule does not write out"
    return value_gap(value, pattern, world)


def value_gap(value, pattern, world):
    """Return why an argument does not match a pattern, by the pattern's kind: path, URL, SQL or plain text; or None."""
    if not Glob(pattern).fits(value):
        return "another argument"
    if "*" not in pattern:
        return None
    if PATH_LIKE.match(pattern):
        place = world.place(value)
        if not place.inside or place.secret:
            return f"{value[:60]} leads elsewhere"
        ends = (place.lexical, *place.reals)
        return None if all(Glob(pattern).fits(end) for end in ends) else f"{value[:60]} leads elsewhere"
    if "://" in pattern:
        return _address_gap(value, pattern)
    if re.match(r"(?i)(?:select|explain|show|describe|with|pragma)\b", pattern):
        return sql_problem(value)
    return None


def _address_gap(value, pattern):
    try:
        asked, named = parts_of(value), parts_of(pattern.rstrip("*") or pattern)
    except BadAddress as error:
        return f"{value[:60]} {error}"
    return None if asked == named else f"{value[:60]} is another host"


def _meets_name(rule, server, name, *, exact):
    if not rule.tool.startswith("mcp__"):
        return False
    rest = rule.tool.removeprefix("mcp__")
    rule_server, _, rule_tool = rest.partition("__")
    if not exact:
        # A restricting rule matches broadly: without case, and for every split of the joined name.
        banned = Glob(rest.casefold() if "__" in rest else rest.casefold() + "__*")
        return banned.fits(f"{server}__{name}".casefold())
    return rule_server == server and (rule_tool in ("", "*") or Glob(rule_tool).fits(name))


def _meets(rule, server, name, given):
    if not _meets_name(rule, server, name, exact=False):
        return False
    if rule.spec is None:
        return True
    key, _, pattern = rule.spec.partition(":")
    return key not in given or not isinstance(given[key], str) or Glob(pattern).fits(given[key])

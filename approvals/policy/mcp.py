"""MCP tools: the server is exact, the tool may have a wildcard, a named argument is checked as what it is."""

import re

from .coverage import decide_call
from .hidden import hidden_in
from .programs.queries import sql_problem
from .verdict import Verdict
from .web import BadAddress, parts_of

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
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
            "high", ["Waits because its server or tool is not named plainly."], None, "no", "Use an MCP tool"
        )
    says = f"it uses {name} of the server {server}, whose effects are not known here"
    outside = _leaves(given, world)

    def covers(rule):
        return outside or gap(rule, server, name, given, world)

    def meets(rule):
        return _meets(rule, server, name, given)

    return decide_call(
        policy, "high", f"{says}: {outside}" if outside else says, title=f"Use {name} of {server}", undo="no",
        meets=meets, covers=covers, tools=None, what="mcp", targets=(f"{server}/{name}",),
    )  # fmt: skip


def _plain(name):
    return isinstance(name, str) and NAME.fullmatch(name) is not None


def _split(tool, context):
    """Take a joined name apart; where the cut is not certain there is no server to speak of."""
    rest = tool.removeprefix("mcp__")
    known = context.get("mcp_server")
    if isinstance(known, str) and rest.startswith(known + "__"):
        return known, rest[len(known) + 2 :]
    parts = rest.split("__")
    return (parts[0], parts[1]) if len(parts) == 2 else (None, None)


def _leaves(given, world):
    """Return which argument, at any depth, names a place outside the workspace or hides characters."""
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
    if not colon or not isinstance(given.get(key), str):
        return f"{key} is not a text"
    other = next((k for k, v in given.items() if k != key and not isinstance(v, (int, float, type(None)))), None)
    if other is not None or any(isinstance(v, bool) for v in given.values()):
        return f"the rule does not name the argument {other}"
    return value_gap(given[key], pattern, world)


def value_gap(value, pattern, world):
    """Compare an argument with a pattern as what it is: a path, an address, SQL, or plain text."""
    if not _glob(pattern).fullmatch(value):
        return "another argument"
    if "*" not in pattern:
        return None
    if PATH_LIKE.match(pattern):
        place = world.place(value)
        if not place.inside or place.secret:
            return f"{value[:60]} leads elsewhere"
        ends = (place.lexical, *place.reals)
        return None if all(_glob(pattern).fullmatch(end) for end in ends) else f"{value[:60]} leads elsewhere"
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


def _glob(pattern):
    return re.compile("".join(".*" if c == "*" else re.escape(c) for c in pattern), re.DOTALL)


def _meets_name(rule, server, name, *, exact):
    if not rule.tool.startswith("mcp__"):
        return False
    rest = rule.tool.removeprefix("mcp__")
    rule_server, _, rule_tool = rest.partition("__")
    if not exact:
        # A ban is generous: letters without case, and a name that could be cut in another way.
        return (
            _glob(rest.casefold() if "__" in rest else rest.casefold() + "__*").fullmatch(
                f"{server}__{name}".casefold()
            )
            is not None
        )
    return rule_server == server and (rule_tool in ("", "*") or _glob(rule_tool).fullmatch(name) is not None)


def _meets(rule, server, name, given):
    if not _meets_name(rule, server, name, exact=False):
        return False
    if rule.spec is None:
        return True
    key, _, pattern = rule.spec.partition(":")
    return key not in given or not isinstance(given[key], str) or bool(_glob(pattern).fullmatch(given[key]))

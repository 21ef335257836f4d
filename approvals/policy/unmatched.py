"""Find rules that can never match, and so promise what they do not do, and rules that an earlier one takes all of."""

import re
import shlex

from .classify import classify
from .paths import is_protected, is_secret
from .policy import Policy
from .rules import CLASSES, FILE_READERS, FILE_WRITERS, WILD
from .verdict import ALLOWING, RESTRICTING, TIERS

OWN_TOOLS = ("Bash", "WebFetch", "WebSearch", "Task", "Agent", "mcp", *FILE_WRITERS, *FILE_READERS)
SPELLED = {tool.lower(): tool for tool in OWN_TOOLS}
HOST = re.compile(r"\*|(?:\*\.)?[a-z0-9_.-]+(?::\d+)?|\[?[0-9a-f:.]+\]?", re.IGNORECASE)
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


def never_matching(policy):
    """Return a sentence for each rule that can never match."""
    found = []
    for tier, rules in ((tier, rules) for each in (policy, *policy.blocks) for tier, rules in each.rules.items()):
        for rule in (rule for rule in rules if rule.tool not in CLASSES):
            why = _malformed(rule) or (_cannot_allow(rule, policy) if tier in ALLOWING else None)
            if why:
                found.append(f"{rule.text} in {tier} can never match: {why}.")
    return found


def shadowed_by_earlier(policy, floor=None):
    """Return {rule, tier, by, by_tier, by_team} of each rule whose calls an earlier list or rule always decides.

    The lists are read in the order forbidden, critical, high, medium, low, those that forbid in `floor` (the team's
    policy) before them.
    """
    earlier = [("forbidden", other, True) for other in floor.tier("forbidden")] if floor else []
    found = []
    for tier in (*RESTRICTING, *ALLOWING):
        for rule in policy.tier(tier):
            above = next((each for each in earlier if _shadows(*each[:2], rule)), None)
            if above:
                by = {"by": above[1].text, "by_tier": above[0], "by_team": above[2]}
                found.append({"rule": rule.text, "tier": tier} | by)
            earlier.append((tier, rule, False))
    return sorted(found, key=lambda each: -TIERS.index(each["tier"]))


def _shadows(tier, wide, narrow):
    return takes_all_of(wide, narrow) and (tier in RESTRICTING or _allows_as_much(wide, narrow))


def takes_all_of(wide, narrow):
    """Return True if each call that `narrow` matches is one that `wide` matches as well."""
    if wide.tool != narrow.tool:
        globbed = wide.tool.startswith("mcp__") and wide.tool.endswith("*") and wide.spec is None
        return (globbed and narrow.tool.startswith(wide.tool[:-1])) or (_is_alike(wide, narrow) and wide.spec is None)
    if _contains(wide, narrow):
        return True
    if wide.tool in FILE_WRITERS + FILE_READERS and wide.spec and narrow.spec:
        folder = wide.spec.strip().removeprefix("./")
        below = folder.endswith("/**") and "/" in folder and "*" not in folder[:-2]
        return below and narrow.spec.strip().removeprefix("./").startswith(folder[:-2])
    return False


def _is_alike(one, other):
    return any(one.tool in group and other.tool in group for group in (FILE_WRITERS, FILE_READERS))


def _allows_as_much(wide, narrow):
    """Return whether the wider of two allowing rules also covers a call that the narrower one spells out.

    A dangerous form is covered only by a rule that spells it out, so the narrower one may allow more.
    """
    if wide.spec == narrow.spec or narrow.spec is None:
        return True
    plain = narrow.spec.removesuffix(":*").replace("**", "x").replace("*", "x").strip()
    words = [token.replace(WILD, "") for token in narrow.tokens if token != WILD]
    inputs = {"Bash": {"command": shlex.join(words)}}
    inputs |= {"WebFetch": {"url": f"https://{plain.removeprefix('domain:')}/"}}
    inputs |= {tool: {"file_path": f"/workspace/{plain}"} for tool in FILE_WRITERS + FILE_READERS}
    if narrow.tool not in inputs:
        return True
    return classify(narrow.tool, inputs[narrow.tool], policy=Policy.of_rules([wide.text])).tier == "low"


def _malformed(rule):
    """Return why a rule matches nothing in any list, or None."""
    known = SPELLED.get(rule.tool.lower())
    if known and rule.tool != known:
        return f"the tool is written {known}"
    if rule.tool.startswith("mcp__"):
        if not rule.tool.removeprefix("mcp__").partition("__")[0]:
            return "it names no server"
        return None if rule.spec is None or ":" in rule.spec else "in the parentheses belongs argument:pattern"
    if rule.spec is None:
        return None
    if rule.tool == "Bash":
        whole = rule.spec.lstrip().startswith(("[[", "((")) or "$(" in rule.spec or "`" in rule.spec
        sign = "" if whole else _unquoted(rule.spec, "&|;\n")
        joins = sign and f"each command of a list or pipe is judged by itself, so none holds {sign!r}; name the parts"
        return joins or None
    if rule.tool == "WebFetch":
        host = rule.spec.removeprefix("domain:").strip()
        return None if HOST.fullmatch(host) else "behind domain: belongs a host, such as docs.python.org"
    if rule.tool in FILE_WRITERS + FILE_READERS:
        names = rule.spec.strip().removeprefix("//").removeprefix("~/").removeprefix("./").strip("/").split("/")
        return (
            "paths are compared without . and .. in them"
            if {".", "..", ""} & set(names[:-1]) or (names[-1] in (".", ".."))
            else None
        )
    return None if rule.tool in ("Task", "Agent", "mcp") or "*" in rule.tool else "this tool takes no parentheses"


def _cannot_allow(rule, policy):
    """Return why an allowing rule never takes effect, or None."""
    if rule.tool == "Bash":
        return _cannot_allow_command(rule) or _shadowed(rule, policy)
    if rule.tool == "WebFetch" and not (rule.spec or "").startswith("domain:"):
        return "an address is allowed by its host: WebFetch(domain:example.com)"
    if rule.tool in FILE_WRITERS:
        names = _plain_names(rule.spec)
        if is_protected(names):
            return "edits of protected paths always ask"
        if "*" not in (rule.spec or "*") and is_secret(names):
            return "edits of files that hold secrets always ask"
    return _shadowed(rule, policy)


def _cannot_allow_command(rule):
    if rule.exact or rule.spec is None:
        return None
    if sign := _unquoted(rule.spec, "<>"):
        return f"a rule with a wildcard covers words and no {sign!r}; the file needs a rule of its own, such as Edit(…)"
    if rule.tokens and ASSIGNMENT.match(rule.tokens[0]):
        return "variables in front of a command are no part of the words that a rule with a wildcard covers"
    return None


def _shadowed(rule, policy):
    """Return which stricter rule matches everything that this one could match, or None."""
    family = next((group for group in (FILE_WRITERS, FILE_READERS) if rule.tool in group), (rule.tool,))
    for tier in RESTRICTING:
        for other in policy.tier(tier):
            if other.tool in family and _contains(other, rule):
                return f"{other.text} in {tier} comes first"
    return None


def _contains(wide, narrow):
    """Return True if `wide` matches all that `narrow` matches; a wildcard of `narrow` must lie within one of `wide`."""
    if wide.spec is None or wide.spec == narrow.spec:
        return True
    if narrow.spec is None or narrow.tool != "Bash":
        return False
    return wide.names("\0".join(narrow.tokens))


def _plain_names(spec):
    """Return the components of a path pattern up to its first wildcard."""
    names = [name for name in (spec or "").strip().split("/") if name not in ("", ".", "~")]
    return names[: next((i for i, name in enumerate(names) if "*" in name or "?" in name), len(names))]


def _unquoted(spec, signs):
    """Return the first of these characters outside quotes and redirects, or ""."""
    quote, before, chars = "", "", iter(spec.replace("&>", ">>"))
    for char in chars:
        if char == "\\" and quote != "'":
            next(chars, "")
        elif quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in signs and not (char in "&|" and before in ("<", ">")):
            return char
        before = char
    return ""

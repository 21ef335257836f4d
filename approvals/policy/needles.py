"""What a call has to hold so that two policies can differ about it: words of the rules that only one of them has.

A replay of many calls judges only those; all others both policies judge alike. A command that hides a program's name
from this search (`g""i""t`) is found all the same, as quotes and backslashes are taken out first; one that builds the
name from parts when it runs is not, so a replay can miss it. What a policy decides about a call never comes from here.
"""

import re

from .rules import CLASSES, FILE_READERS, FILE_WRITERS, WILD
from .verdict import TIERS

FILES = (*FILE_WRITERS, *FILE_READERS, "apply_patch")
PARTS = re.compile(r"[*?\[\]{}/]+")


def of_change(before, after):
    """Return {all: True}, or {tools: names, programs: words, paths: words} of which a call must hold one."""
    same = ("mode", "trust", "targets", "approvals")
    if any(getattr(before, name) != getattr(after, name) for name in same):
        return {"all": True}
    changed = _rules(before) ^ _rules(after)
    found = {"tools": set(), "programs": set(), "paths": set()}
    for *_, tool, spec in changed:
        needle = None if tool in (None, *CLASSES) else _needle(tool, spec)
        if not needle:
            return {"all": True}
        found["programs" if tool == "Bash" else "paths" if tool in FILES else "tools"].add(needle)
    return {name: sorted(words) for name, words in found.items()}


def _rules(policy):
    """Return (conditions, list, tool, spec) of each rule, and a block's mode as a rule without a tool."""
    found = {("", tier, rule.tool, rule.spec) for tier in TIERS for rule in policy.tier(tier)}
    for block in policy.blocks:
        where = f"{block.where} {block.is_floor}"
        found |= {(where, tier, rule.tool, rule.spec) for tier, listed in block.rules.items() for rule in listed}
        found |= {(where, block.mode, None, None)} if block.mode else set()
    return found


def _needle(tool, spec):
    """Return a word that each call that the rule is about holds; None if there is no such word."""
    if tool == "Bash":
        first = re.split(r"[\s\"'\\]+", (spec or "*").strip())[0].rpartition("/")[2]
        return first if first and "*" not in first and WILD not in first else None
    if tool in FILES:
        return max(PARTS.split(spec or ""), key=len) or None
    return tool.partition("*")[0]


def touches(needles, tool, arguments):
    """Return whether two policies can differ about a call, by the needles of their change."""
    if needles.get("all"):
        return True
    if tool in FILES or tool == "Bash":
        text = " ".join(str(value) for value in arguments.values())
        if tool == "Bash":
            text = re.sub(r"[\"'\\]", "", text)
            if any(word in text for word in needles["programs"]):
                return True
        return any(word in text for word in needles["paths"])
    return any(tool.startswith(name) or tool == "mcp" for name in needles["tools"])

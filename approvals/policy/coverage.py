"""Whether a rule covers a sub-command. A dangerous form is covered only by a rule that spells it out."""

from .rules import FILE_WRITERS
from .step_budget import spend
from .verdict import ALLOWING, RESTRICTING, Verdict, reason, worst


def gap(rule, effects, file_rules, world):
    """Return why this Bash rule does not cover these effects, or None if it does."""
    for effect in effects:
        reason = _gap(rule, effect, file_rules, world)
        if reason:
            return reason
    return None


def _gap(rule, effect, file_rules, world):
    kind, place = effect.kind, effect.place
    if kind in ("write", "delete"):
        if place is None or effect.tier != "medium" or not place.inside:
            return effect.says
        covered = any(file.allows_path(place, world) for file in file_rules)
        return None if covered else f"{effect.says}, which no Edit rule covers"
    if effect.tier in ("critical", "forbidden") or kind in ("unclear", "hidden"):
        return effect.says
    if kind == "network" and effect.target:
        return None if effect.target in rule.hosts else effect.says
    if rule.exact and kind != "network":
        return None  # a person has read the exact command
    if kind in ("read", "run", "local") and effect.tier in ("low", "medium") and not effect.spelled:
        return None
    return None if effect.spelled and _spells(rule, effect) else effect.says


def _spells(rule, effect):
    return all(word in rule.spelled for word in effect.spelled)


def find_rule(policy, tool_rules, covers):
    """Return (tier, rule) of the first allowing rule that covers the call, medium before low, or None."""
    for tier in ALLOWING:
        for rule in policy.tier(tier):
            spend()
            if (tool_rules is None or rule.tool in tool_rules) and covers(rule):
                return tier, rule
    return None


def restricting(policy, meets):
    """Return (tier, rule) of the strictest restricting rule that matches, or None."""
    for tier in RESTRICTING:
        for rule in policy.tier(tier):
            spend()
            if meets(rule):
                return tier, rule
    return None


def file_rules(policy, tools=FILE_WRITERS):
    """Return the allowing rules for file tools."""
    return [rule for tier in ALLOWING for rule in policy.tier(tier) if rule.tool in tools]


def decide_call(policy, built_in, says, *, title, undo, meets, covers, tools, what, targets=()):
    """Return the verdict by restricting rules first, then the built-in tier, then allowing rules.

    `meets(rule)` and `covers(rule)` test one rule; `covers` returns None if it covers the call, else why it does not.
    """
    met = restricting(policy, meets)
    tier, rule = built_in, None
    if met:
        tier = worst([met[0], built_in if built_in in ("critical", "forbidden") else "low"])
        rule = met[1].text
        says = f"{says} (rule {rule})"
    elif built_in not in ("critical", "forbidden"):
        allowed = find_rule(policy, tools, lambda r: covers(r) is None)
        if allowed:
            tier, rule = allowed[0], allowed[1].text
            says = f"covered by the rule {rule}"
    entry = {"text": title, "line": 1, "words": [], "tier": tier, "undo": undo, "what": what, "targets": list(targets)}
    entry |= {"names": list(targets), "reason": says, "rule": rule}
    return Verdict(tier, [reason(tier, says)], rule, undo, title, [entry])

"""Does a rule cover a sub-command? It covers what it names, and a dangerous form only where it spells it out."""

from .rules import FILE_WRITERS
from .verdict import ALLOWING, RESTRICTING, Verdict, worst


def gap(rule, effects, file_rules, world):
    """Return why this Bash rule does not cover these effects, or None when it does."""
    for effect in effects:
        reason = _gap(rule, effect, file_rules, world)
        if reason:
            return reason
    return None


def _gap(rule, effect, file_rules, world):
    kind, place = effect.kind, effect.place
    if kind in ("write", "delete"):
        if place is None or effect.tier != "medium":
            return effect.says
        covered = any(file.allows_path(place, world) for file in file_rules)
        return None if covered else f"{effect.says}, which no Edit rule covers"
    if effect.tier in ("critical", "forbidden") or kind in ("unclear", "hidden"):
        return effect.says
    if kind == "network" and effect.target:
        return None if effect.target in rule.hosts else effect.says
    if rule.exact and kind != "network":
        return None  # a person has read every word of it
    if kind in ("read", "run", "local") and effect.tier in ("low", "medium") and not effect.spelled:
        return None
    return None if effect.spelled and _spells(rule, effect) else effect.says


def _spells(rule, effect):
    return all(word in rule.spelled for word in effect.spelled)


def find_rule(policy, tool_rules, covers):
    """Return (tier, rule) of the allowing rule that covers, medium before low, or None."""
    for tier in ALLOWING:
        for rule in policy.tier(tier):
            if (tool_rules is None or rule.tool in tool_rules) and covers(rule):
                return tier, rule
    return None


def restricting(policy, meets):
    """Return (tier, rule) of the strictest restricting rule that meets this, or None."""
    for tier in RESTRICTING:
        for rule in policy.tier(tier):
            if meets(rule):
                return tier, rule
    return None


def file_rules(policy, tools=FILE_WRITERS):
    return [rule for tier in ALLOWING for rule in policy.tier(tier) if rule.tool in tools]


def decide_call(policy, built_in, says, *, title, undo, meets, covers, tools, what, targets=()):
    """Put rules over the built-in tier: restricting rules, then allowing ones, then the mode's answer.

    `covers(rule)` returns None where the rule covers the call, else why it does not.
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
            says = f"it is covered by the rule {rule}"
    lead = "Refused" if tier == "forbidden" else "Waits" if tier in ("high", "critical") else "Runs without asking"
    entry = {"text": title, "line": 1, "words": [], "tier": tier, "undo": undo, "what": what, "targets": list(targets)}
    return Verdict(tier, [f"{lead} because {says}."], rule, undo, title, [{**entry, "reason": says, "rule": rule}])

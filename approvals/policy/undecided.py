"""Find rules that can be met, but never decide about a call that people have in mind: saving warns about them."""

import shlex

from .classify import classify
from .policy import Policy
from .rules import CLASSES, FILE_READERS, FILE_WRITERS, WILD
from .unmatched import takes_all_of
from .verdict import ALLOWING, RESTRICTING, TIERS

# What a wildcard may stand for, so that a rule that covers none of it covers hardly anything.
FILLINGS = (["x"], ["src/app.py"], ["test"], ["-v"], ["origin", "topic"], ["-f", "x.yml"])
OF_PLACES = ("target", "host", "amount", "branch")  # conditions that a call which names no place never meets
MAX_TRIED = 60  # rules, each with a handful of commands; those that cover the first one take one


def warnings_of(policy):
    """Return a sentence for each rule that is kept although it never decides, or about hardly anything."""
    found, tried = [], 0
    for rule, tier, block in _rules(policy):
        if block is not None:
            found += [*_of_block(rule, tier, block), *_behind(rule, tier, block, policy)]
        if _is_wide(rule, tier) and tried < MAX_TRIED:
            tried += 1
            found += _of_wildcard(rule, tier)
    return found


def _rules(policy):
    top = [(rule, tier, None) for tier in TIERS for rule in policy.tier(tier)]
    return top + [
        (rule, tier, block) for block in policy.blocks for tier in TIERS for rule in block.rules.get(tier, ())
    ]


def _is_wide(rule, tier):
    return tier in ALLOWING and rule.tool == "Bash" and rule.spec is not None and not rule.exact and not rule.at_target


def _of_block(rule, tier, block):
    if condition := _never_met(rule, block):
        yield f"{rule.text} in {tier} never decides: calls of {rule.tool} have no {condition}."


def _never_met(rule, block):
    """Return the condition that no call of this tool can meet, or None."""
    is_file = rule.tool in FILE_WRITERS + FILE_READERS
    for condition in block.conditions:
        if is_file and condition in OF_PLACES:
            return condition
        if rule.tool in ("Bash", "WebFetch") and condition == "amount":
            return condition
    return None


def _of_wildcard(rule, tier):
    """Yield a sentence if an allowing rule with a wildcard covers no command that has something in its place."""
    alone = Policy.of_rules([f"Bash({rule.spec})"])
    if any(_covers(alone, _filled(rule, filling)) for filling in FILLINGS):
        return
    bare = [token for token in rule.tokens if WILD not in token]
    only = f"decides about nothing but `{shlex.join(bare)}`" if _covers(alone, bare) else "never decides"
    yield (
        f"{rule.text} in {tier} {only}: a wildcard covers no words that change something elsewhere or that Handrail"
        " does not know. Write the whole command, or put the rule into a [[when]] entry with a target."
    )


def _filled(rule, filling):
    words = []
    for token in rule.tokens:
        words += filling if token == WILD else [token.replace(WILD, filling[0].strip("-"))]
    return words


def _covers(policy, words):
    return bool(words) and classify("Bash", {"command": shlex.join(words)}, policy=policy).tier == "low"


def _behind(rule, tier, block, policy):
    """Yield a sentence if one without conditions takes all that a rule of a block matches, and is as strict."""
    if rule.tool in CLASSES:
        return
    for stricter in RESTRICTING:
        if TIERS.index(stricter) < TIERS.index(tier):
            continue
        above = next((other for other in policy.tier(stricter) if takes_all_of(other, rule)), None)
        if above:
            yield f"{rule.text} in {tier} never decides: {above.text} in {stricter} comes first."
            return

"""Blocks of a policy: rules and a mode that hold under conditions, and the floor, which nothing loosens.

Rules that make a call wait apply where all conditions of their block are possible; rules that let one run apply only
where all of them are certain.
"""

from dataclasses import dataclass, field, replace

from .conditions import CONDITIONS, read_condition
from .rules import CLASSES, parse_rule, too_broad
from .verdict import ALLOWING, RESTRICTING, TIERS, PolicyError

MAX_BLOCKS = 200
STRICT = ("irreversible", "commands", "everything")  # modes, the most lenient first


@dataclass(frozen=True)
class Block:
    """A block `[[when]]`: conditions, rules by tier, a mode, and the targets that its policy names.

    `is_floor`: it also holds below the policies of environments, which cannot loosen it.
    """

    conditions: dict
    rules: dict
    mode: str = ""
    targets: dict = field(default_factory=dict)
    is_floor: bool = False

    @property
    def where(self):
        """Return the conditions as the label of its rules has them: "target production, agent ci-*"."""
        return ", ".join(f"{key} {' or '.join(test.texts)}" for key, test in self.conditions.items())

    def holds(self, facts):
        """Return (possible, certain) of all conditions together."""
        found = [test.holds(facts) for test in self.conditions.values()]
        return all(possible for possible, _ in found), all(certain for _, certain in found)

    def tightening(self):
        """Return what of it the policies below cannot loosen: the rules that make calls wait."""
        rules = {tier: listed for tier, listed in self.rules.items() if tier in RESTRICTING}
        return Block(self.conditions, rules, self.mode, self.targets, True)

    def forbidding(self):
        rules = {"forbidden": self.rules.get("forbidden", [])}
        return Block(self.conditions, rules, "", self.targets, True)


def read_blocks(data, table, *, is_floor=False):
    """Return the Blocks of `[[when]]` of a policy. PolicyError says what is wrong with one, by its number."""
    if not isinstance(data, list) or not all(isinstance(each, dict) for each in data):
        raise PolicyError("Conditions are written as [[when]] entries, each with its own rules.")
    if len(data) > MAX_BLOCKS:
        raise PolicyError(f"A policy can have at most {MAX_BLOCKS} entries [[when]].")
    found = []
    for number, each in enumerate(data, 1):
        try:
            found.append(_block(each, table, is_floor))
        except PolicyError as error:
            raise PolicyError(f"Entry {number} of [[when]]: {error}") from None
    return tuple(found)


def read_floor(data, table):
    """Return the Blocks of the table `floor` of a policy. PolicyError says what is wrong with it."""
    if not isinstance(data, dict):
        raise PolicyError("floor is a table with critical, high or forbidden rules, a mode, and [[floor.when]].")
    own = {key: value for key, value in data.items() if key != "when"}
    strange = sorted(set(own) - {"mode", *RESTRICTING})
    if strange:
        raise PolicyError(f"floor has {strange[0]!r}; it can only tighten: {', '.join(RESTRICTING)}, mode and when.")
    blocks = read_blocks(data.get("when", []), table, is_floor=True)
    if not own and not blocks:
        raise PolicyError("The table floor has no rules.")
    return ((Block({}, _rules(own, ""), _mode(own), table, True),) if own else ()) + blocks


def _block(data, table, is_floor):
    strange = sorted(set(data) - {*CONDITIONS, "mode", *TIERS})
    if strange:
        raise PolicyError(
            f"{strange[0]!r} is no condition and no list; the conditions are {', '.join(CONDITIONS)}, the lists"
            f" {', '.join(TIERS)}, and there is mode."
        )
    conditions = {key: read_condition(key, data[key], table) for key in CONDITIONS if key in data}
    if not conditions:
        raise PolicyError("it has no condition, so its rules belong into the lists above the first table.")
    if not any(data.get(tier) for tier in TIERS) and "mode" not in data:
        raise PolicyError("it has no rules and no mode, so it decides nothing.")
    if is_floor and any(data.get(tier) for tier in ALLOWING):
        raise PolicyError("it is of the floor, which can only tighten: low and medium cannot stand in it.")
    where = Block(conditions, {}, "", table).where
    rules = _rules(data, where, _names_target(conditions.get("target")))
    return Block(conditions, rules, _mode(data), table, is_floor)


def _names_target(test):
    return test is not None and bool(test.wanted)


def _mode(data):
    mode = data.get("mode", "")
    if mode and mode not in STRICT:
        raise PolicyError(f"Unknown mode {mode!r}; choose one of {', '.join(STRICT)}.")
    return mode


def _rules(data, where, at_target=False):
    rules = {}
    for tier in TIERS:
        texts = data.get(tier, [])
        if not isinstance(texts, list):
            raise PolicyError(f"{tier} must be a list of rules.")
        listed = [parse_rule(text, where=where, at_target=at_target) for text in texts]
        for rule in listed if tier in ALLOWING else ():
            if reason := too_broad(rule):
                raise PolicyError(reason)
            if rule.tool in CLASSES and not at_target:
                raise PolicyError(f"{rule.tool} in {tier} needs a target that it is allowed for.")
        rules[tier] = listed
    return rules


def in_force(policy, facts):
    """Return (mode, rules by tier) of a policy with those of its blocks that hold for a call."""
    rules = {tier: list(policy.tier(tier)) for tier in TIERS}
    certain_modes, possible_modes = [], []
    for block in policy.blocks:
        possible, certain = block.holds(facts)
        modes = [block.mode] if block.mode else []
        if possible:
            possible_modes += modes
            for tier in RESTRICTING:
                rules[tier] += [_for_call(rule, facts) for rule in block.rules.get(tier, ()) if _meets(rule, facts)]
        if certain and not block.is_floor:
            certain_modes += modes
            for tier in ALLOWING:
                rules[tier] += [_covering(rule, facts) for rule in block.rules.get(tier, ()) if _covers(rule, facts)]
    base = strictest(certain_modes) if certain_modes else policy.mode
    return strictest([base, *possible_modes]), rules


def strictest(modes):
    return max(modes, key=STRICT.index)


def _meets(rule, facts):
    """Return whether a rule for a class of calls means this one; others are compared with it later."""
    reach = facts.reach
    return {"writes": reach.writes, "reads": reach.reads and bool(reach.destinations)}.get(rule.tool, True)


def _covers(rule, facts):
    return rule.tool != "reads" or facts.reach.reads


def _for_call(rule, facts):
    """Return a rule for a class as one that names the tool of this call."""
    return replace(rule, tool=facts.tool, spec=None) if rule.tool in CLASSES else rule


def _covering(rule, facts):
    """Return an allowing rule; which commands of a shell one for a class covers is decided there (see bash.py)."""
    return rule if facts.tool == "Bash" else _for_call(rule, facts)

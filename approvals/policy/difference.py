"""The difference between two policies for all calls: which classes one of them lets run, or lets run more easily."""

from dataclasses import dataclass, field

from .people import LEAST, least
from .verdict import TIERS

GROUPS = ("newly_allowed", "easier", "stricter")
WAYS = {"low": 0, "medium": 0, "high": 1, "critical": 2, "forbidden": 3}  # runs, one person, two, refused
MAX_EXAMPLES = 4


@dataclass
class Shape:
    """A class of calls that two policies treat differently. `contexts`: those of all that it was judged in.

    One whose tier stays is of all calls of the tier, which take other people by the tables `approvals`.
    """

    shape: str
    before: str
    after: str
    rule: str = ""
    examples: list = field(default_factory=list)
    contexts: list = field(default_factory=list)


def classes(judged, people=({}, {})):
    """Return {newly_allowed, easier, stricter} of Shapes from cases and their verdicts.

    `judged` yields (case, [tier, rule] before, [tier, rule] after); a case is one of shapes.cases. `people` are the
    two tables {tier: Takes} of who approves. What takes fewer people by its table is newly allowed.
    """
    found = {group: {} for group in GROUPS}
    for (shape, tool, arguments, context), (before, rule_before), (after, rule) in judged:
        takes = [least(table, tier) for table, tier in zip(people, (before, after), strict=True)]
        group = _group(before, after, *takes)
        if group is None:
            continue
        by = (rule if group != "easier" else rule or rule_before) or ""
        if before == after:
            shape, by = f"approvals of {after} calls: {takes[0]} → {takes[1]}", ""
        key = (shape, before, after, by)
        known = found[group].setdefault(key, Shape(shape, before, after, by))
        example = {"tool": tool, "input": arguments}
        if example not in known.examples and len(known.examples) < MAX_EXAMPLES:
            known.examples.append(example)
        if context not in known.contexts:
            known.contexts.append(context)
    return {group: sorted(shapes.values(), key=_weight) for group, shapes in found.items()}


def _group(before, after, takes_before, takes_after):
    """Return in which group a call is, None if it makes no difference to people."""
    if before in LEAST and after in LEAST:
        if takes_after == takes_before:
            return None
        if takes_after.meets(takes_before):
            return "stricter"
        return "newly_allowed" if before == after else "easier"
    if WAYS[before] == WAYS[after]:
        return None
    return "stricter" if WAYS[after] > WAYS[before] else "newly_allowed" if not WAYS[after] else "easier"


def _weight(shape):
    """Put what changes most first, then by name."""
    return -abs(TIERS.index(shape.before) - TIERS.index(shape.after)), shape.shape


def conditions_of(shape, all_contexts):
    """Return {name: values} of what a shape's contexts have and others lack: who asks, from where, when, held."""
    found = {}
    names = ("agent", "environment", "isolation", "labels", "at", "on_duty", "undo")
    for name in (*names, "held") if any(each["tool"] == "Bash" for each in shape.examples) else names:
        mine = {repr(context.get(name)): context.get(name) for context in shape.contexts}
        every = {repr(context.get(name)) for context in all_contexts}
        if set(mine) != every:
            found[name] = list(mine.values())
    return found

"""Rules with conditions in words: "Writes to production ask two people, for every agent"."""

from dataclasses import dataclass

from django.utils.text import get_text_list
from django.utils.translation import gettext, gettext_lazy, ngettext_lazy

from approvals.policy import TIERS

# {class of calls: {tier: what happens to it}}; %(where)s is a target, or other systems.
DOES = {
    "writes": {
        "low": gettext_lazy("Writes to %(where)s run"),
        "medium": gettext_lazy("Writes to %(where)s run after a snapshot"),
        "high": gettext_lazy("Writes to %(where)s ask one person"),
        "critical": gettext_lazy("Writes to %(where)s ask two people"),
        "forbidden": gettext_lazy("Writes to %(where)s are forbidden"),
    },
    "reads": {
        "low": gettext_lazy("Reads from %(where)s run"),
        "medium": gettext_lazy("Reads from %(where)s run after a snapshot"),
        "high": gettext_lazy("Reads from %(where)s ask one person"),
        "critical": gettext_lazy("Reads from %(where)s ask two people"),
        "forbidden": gettext_lazy("Reads from %(where)s are forbidden"),
    },
    "calls": {
        "low": gettext_lazy("All calls to %(where)s run"),
        "medium": gettext_lazy("All calls to %(where)s run after a snapshot"),
        "high": gettext_lazy("All calls to %(where)s ask one person"),
        "critical": gettext_lazy("All calls to %(where)s ask two people"),
        "forbidden": gettext_lazy("All calls to %(where)s are forbidden"),
    },
}
ANY_CALL = {
    "high": gettext_lazy("All calls ask one person"),
    "critical": gettext_lazy("All calls ask two people"),
    "forbidden": gettext_lazy("All calls are forbidden"),
}
OTHER = {
    "low": gettext_lazy("%(rules)s run"),
    "medium": gettext_lazy("%(rules)s run after a snapshot"),
    "high": gettext_lazy("%(rules)s ask one person"),
    "critical": gettext_lazy("%(rules)s ask two people"),
    "forbidden": gettext_lazy("%(rules)s are forbidden"),
}
MODE = {
    "irreversible": gettext_lazy("What can't be undone asks"),
    "commands": gettext_lazy("What can't be undone asks, and so do commands"),
    "everything": gettext_lazy("Everything asks"),
}
AGENTS = ngettext_lazy("for the agent %(names)s", "for the agents %(names)s", "n")
MORE = {
    "environment": gettext_lazy("in the environment %(names)s"),
    "isolation": gettext_lazy("where the isolation is %(names)s"),
    "label": gettext_lazy("in workspaces with the label %(names)s"),
    "branch": gettext_lazy("on the branch %(names)s"),
    "host": gettext_lazy("at the host %(names)s"),
    "amount": gettext_lazy("where the amount is %(names)s"),
    "hours": gettext_lazy("at the hours %(names)s"),
}
DUTY = {"true": gettext_lazy("while somebody is on duty"), "false": gettext_lazy("while nobody is on duty")}
UNDONE = {
    "inside": gettext_lazy("where a snapshot undoes it"),
    "outside": gettext_lazy("where it can be undone outside"),
    "not": gettext_lazy("where it can't be undone"),
}
SEPARATOR = ", "


@dataclass(frozen=True)
class Sentence:
    """A rule with conditions on a page. `number`: its place among the blocks [[when]]; None for one of the floor."""

    text: str
    tier: str  # "" for a mode
    labels: tuple = ()  # of its rules, as verdicts name them
    number: int | None = None
    is_floor: bool = False


def of_blocks(blocks: list[dict]) -> list[Sentence]:
    """Return the sentences of the blocks of a policy, as workers.check has them."""
    found = []
    for number, block in enumerate(blocks):
        at = None if block["is_floor"] else number
        more = {"number": at, "is_floor": block["is_floor"]}
        found += [Sentence(text, tier, tuple(labels), **more) for text, tier, labels in _of_block(block)]
    return found


def _of_block(block: dict):
    conditions = block["conditions"]
    for tier in reversed(TIERS):
        rules, labels = block["rules"].get(tier, []), block["labels"].get(tier, [])
        plain = [rule for rule in rules if rule not in DOES]
        for rule, label in zip(rules, labels, strict=True):
            if rule in DOES:
                yield _sentence(_does(rule, tier, conditions), conditions), tier, [label]
        if plain:
            named = get_text_list(plain, gettext("and"))
            does = gettext(OTHER[tier]) % {"rules": named}
            at = gettext("at %(where)s") % {"where": _where(conditions)} if "target" in conditions else ""
            labels = [label for rule, label in zip(rules, labels, strict=True) if rule not in DOES]
            yield _sentence(does, conditions, at), tier, labels
    if block["mode"]:
        yield _sentence(gettext(MODE[block["mode"]]), conditions), "", []


def _does(rule: str, tier: str, conditions: dict) -> str:
    if rule == "calls" and "target" not in conditions and tier in ANY_CALL:
        return gettext(ANY_CALL[tier])
    return gettext(DOES[rule][tier]) % {"where": _where(conditions)}


def _where(conditions: dict) -> str:
    return _names(conditions["target"]) if "target" in conditions else gettext("other systems")


def _names(texts: list[str]) -> str:
    """Return values of a condition in words: "staging or production", "anything but staging"."""
    wanted = [text for text in texts if not text.startswith("!")]
    unwanted = [text[1:] for text in texts if text.startswith("!")]
    named = get_text_list(wanted, gettext("or"))
    if not unwanted:
        return named
    but = gettext("anything but %(names)s") % {"names": get_text_list(unwanted, gettext("and"))}
    return f"{named}{SEPARATOR}{but}" if named else but


def _sentence(does: str, conditions: dict, at: str = "") -> str:
    agents = conditions.get("agent")
    who = AGENTS % {"n": len(agents), "names": _names(agents)} if agents else gettext("for every agent")
    parts = [does + (f" {at}" if at else ""), str(who)]
    parts += [gettext(says) % {"names": _names(conditions[key])} for key, says in MORE.items() if key in conditions]
    parts += [str(DUTY[text]) for text in conditions.get("on_duty", [])]
    if undone := conditions.get("undo"):
        parts.append(get_text_list([str(UNDONE[text]) for text in undone], gettext("or")))
    return SEPARATOR.join(parts) + "."

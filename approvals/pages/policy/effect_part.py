"""The effect of a changed policy, in words: groups of calls that it would treat differently."""

from dataclasses import dataclass

from django.utils.translation import ngettext_lazy

from approvals.reports.policy_changes import effect
from approvals.reports.policy_changes.effect import Change, Effect

# {group: (colour, its heading)}; headings count calls.
WORDS = {
    effect.FORBIDDEN: ("red", ngettext_lazy("%(n)s call would be forbidden", "%(n)s calls would be forbidden", "n")),
    effect.ASKED: (
        "amber",
        ngettext_lazy("%(n)s call more would need approval", "%(n)s calls more would need approval", "n"),
    ),
    effect.MORE_PEOPLE: (
        "amber",
        ngettext_lazy("%(n)s call would need more people", "%(n)s calls would need more people", "n"),
    ),
    effect.FEWER_PEOPLE: (
        "quiet",
        ngettext_lazy("%(n)s call would need fewer people", "%(n)s calls would need fewer people", "n"),
    ),
    effect.ALLOWED_AGAIN: (
        "quiet",
        ngettext_lazy("%(n)s forbidden call would need approval", "%(n)s forbidden calls would need approval", "n"),
    ),
    effect.RUNS: (
        "green",
        ngettext_lazy("%(n)s call would run without approval", "%(n)s calls would run without approval", "n"),
    ),
}


@dataclass(frozen=True)
class Group:
    tone: str
    heading: str
    changes: list[Change]
    more: int


def groups_of(found: Effect) -> list[Group]:
    """Return the groups that hold calls, the strictest first."""
    return [
        Group(tone, words % {"n": count}, found.groups[name], count - len(found.groups[name]))
        for name, (tone, words) in WORDS.items()
        if (count := found.counts[name])
    ]

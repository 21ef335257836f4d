"""What a text would newly allow, in words: classes of calls with examples, and for whom."""

import json
from dataclasses import dataclass

from django.utils.translation import gettext, gettext_lazy

from approvals.pages.policy.sentences import UNDONE
from approvals.policy.difference import Shape, conditions_of
from approvals.reports.policy_changes import difference
from approvals.reports.policy_changes.scopes import Scope
from dashboard.problems import Problem

MAX_SHOWN = 60  # classes of a group on the page
NAMED = {
    "agent": gettext_lazy("agent"),
    "environment": gettext_lazy("environment"),
    "isolation": gettext_lazy("isolation"),
    "at": gettext_lazy("time"),
}
HEADINGS = {
    "newly_allowed": gettext_lazy("Would run without approval, or need fewer people, and does not now"),
    "easier": gettext_lazy("Would be of a milder tier"),
    "stricter": gettext_lazy("Would be stricter"),
}
TONES = {"newly_allowed": "green", "easier": "quiet", "stricter": "amber"}
MAX_EXAMPLE = 300


@dataclass(frozen=True)
class Row:
    """A class on the page: its name, what it was and will be, examples as text, and for whom it differs."""

    shape: Shape
    examples: list[str]
    where: list[str]


@dataclass(frozen=True)
class Group:
    name: str
    tone: str
    heading: str
    rows: list[Row]
    more: int


def newly_of(scope: Scope, text: str) -> dict:
    """Return {newly, newly_groups} for a page, or {refused: why}."""
    try:
        return newly_groups_of(difference.of_text(scope, text))
    except Problem as problem:
        return {"refused": problem.detail}


def newly_groups_of(found: difference.Difference) -> dict:
    """Return {newly, newly_groups} for a page."""
    groups = [_group(name, shapes, found) for name, shapes in found.groups.items() if shapes]
    return {"newly": found, "newly_groups": groups}


def _group(name: str, shapes: list[Shape], found: difference.Difference) -> Group:
    rows = [Row(each, [_example(one) for one in each.examples], _where(each, found)) for each in shapes[:MAX_SHOWN]]
    return Group(name, TONES[name], HEADINGS[name], rows, max(0, len(shapes) - MAX_SHOWN))


def _example(example: dict) -> str:
    given = example["input"]
    said = (
        given["command"] if example["tool"] == "Bash" else f"{example['tool']} {json.dumps(given, ensure_ascii=False)}"
    )
    return said[:MAX_EXAMPLE]


def _where(shape: Shape, found: difference.Difference) -> list[str]:
    """Return in words in which of the contexts the class differs."""
    said = []
    for name, values in conditions_of(shape, found.contexts).items():
        if name == "held":
            said.append(
                gettext("where the kernel holds the call") if True in values else gettext("where nothing holds it")
            )
        elif name == "on_duty":
            said.append(gettext("while somebody is on duty") if True in values else gettext("while nobody is on duty"))
        elif name == "undo":
            said += [str(UNDONE[value]) for value in values if value in UNDONE]
        elif name == "labels":
            labels = [f"{key}:{value}" for each in values for key, value in each.items()]
            said.append(gettext("label %(names)s") % {"names": ", ".join(labels) or gettext("none")})
        else:
            said.append(f"{NAMED[name]} {', '.join(str(value) for value in values)}")
    return said

"""The line above the list of waiting calls: what it can be narrowed to and sorted by, each as a link."""

from dataclasses import dataclass
from typing import NamedTuple

from django.utils.translation import gettext, gettext_lazy

from approvals.pages.list_filters import ENDS_SOON, KINDS, filter_query
from approvals.questions import own_questions

SORT_NAMES = {"": gettext_lazy("Ends first"), "newest": gettext_lazy("Newest"), "oldest": gettext_lazy("Oldest")}


class Chip(NamedTuple):
    """A link that narrows the list, or no longer does. `count`: how many wait that it is about; None if not said."""

    href: str
    words: str
    is_chosen: bool
    count: int | None = None


class Menu(NamedTuple):
    """Chips of which one is chosen, behind a name: "Agent"; `chosen` are the words of the one that is."""

    label: str
    chips: list[Chip]
    chosen: str


@dataclass
class FilterBar:
    """The chips and menus; for the form of the search its address, its text and the other filters."""

    address: str
    chips: list[Chip]
    menus: list[Menu]
    text: str
    others: list[tuple[str, str]]


def filter_bar(address: str, pending, now, chosen: dict[str, str]) -> FilterBar:
    """Return the line for a page at `address` (a path). `pending` is what waits, not narrowed."""
    facts = list(pending.values_list("tool", "undo", "expires_at", "workspace__key", "agent__name"))

    def chip(name: str, value: str, words, count: int | None = None) -> Chip:
        is_chosen = chosen[name] == value
        there = filter_query(chosen | {name: "" if is_chosen else value})
        return Chip(address + there, str(words), is_chosen, count)

    counts = {
        ("kind", "question"): sum(tool in KINDS["question"] for tool, *_ in facts),
        ("kind", "plan"): sum(tool in KINDS["plan"] for tool, *_ in facts),
        ("undo", "no"): sum(undo == "no" and tool not in own_questions.TOOLS for tool, undo, *_ in facts),
        ("undo", "outside"): sum(undo == "outside" for _, undo, *_ in facts),
        ("ends", "soon"): sum(fact[2] <= now + ENDS_SOON for fact in facts),
    }
    words = {
        "question": gettext("Questions"),
        "plan": gettext("Plans"),
        "no": gettext("Can't be undone"),
        "outside": gettext("Can be undone outside"),
        "soon": gettext("Expiring"),
    }
    chips = [
        chip(name, value, words[value], count)
        for (name, value), count in counts.items()
        if count or chosen[name] == value
    ]
    menus = [
        _menu(chip, "workspace", gettext("Workspace"), [fact[3] for fact in facts if fact[3]], chosen),
        _menu(chip, "agent", gettext("Agent"), [fact[4] for fact in facts], chosen),
        _sorts(address, chosen),
    ]
    others = [(name, value) for name, value in chosen.items() if value and name != "q"]
    return FilterBar(address, chips, [menu for menu in menus if menu.chips], chosen["q"], others)


def _menu(chip, name: str, label: str, values: list[str], chosen) -> Menu:
    """Return the menu of one name; without chips if there is nothing to choose among."""
    distinct = sorted({*values, *([chosen[name]] if chosen[name] else [])})
    chips = [chip(name, value, value, values.count(value)) for value in distinct]
    return Menu(label, chips if len(chips) > 1 or chosen[name] else [], chosen[name])


def _sorts(address: str, chosen) -> Menu:
    chips = [
        Chip(address + filter_query(chosen | {"sort": sort}), str(words), chosen["sort"] == sort)
        for sort, words in SORT_NAMES.items()
    ]
    return Menu(gettext("Sort"), chips, str(SORT_NAMES[chosen["sort"]]) if chosen["sort"] else "")

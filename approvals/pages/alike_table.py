"""What differs among alike calls, as a table; what is the same in all of them stands once above it."""

import re
from dataclasses import dataclass

from django.utils.translation import gettext

from approvals.models import Action
from approvals.pages import alike_numbers
from approvals.pages.alike_groups import differing, sums_of
from approvals.pages.card import Card
from dashboard import json_text

MAX_COLUMNS = 6
MAX_CELL = 160  # characters
MAX_SAME = 12  # values that are the same in all
PLACE = None  # stands for the workspace among the places of values
LIKE_ANOTHER_TYPE = re.compile(r"\s*|-?[\d.eE+-]+|true|false|null")  # texts that are shown in quotation marks


@dataclass(frozen=True)
class Cell:
    """A value of one call; `text` is None if the call does not have it, and cut to MAX_CELL characters."""

    text: str | None
    is_cut: bool = False


@dataclass(frozen=True)
class AlikeTable:
    """`same`: [(name, value)] in all calls; for each of `rows` its card and a cell for each of `columns`.

    `sums`: the sum for each currency, or of an amount without one. `more`: differences that have no column.
    """

    same: list[tuple[str, str]]
    columns: list[str]
    rows: list[tuple[Card, list[Cell]]]
    sums: list[tuple[str, str]]
    more: int

    @property
    def is_cut(self) -> bool:
        """Whether a call has more than its row shows."""
        return self.more > 0 or any(cell.is_cut for _, cells in self.rows for cell in cells)


def table_of(cards: list[Card]) -> AlikeTable:
    """Return the table of the cards of one group."""
    calls = [_values(card) for card in cards]
    paths = list(dict.fromkeys(path for call in calls for path in call))
    differ = [path for path in paths if len({call.get(path) for call in calls}) > 1]
    same = [(_name(path), _cut(calls[0][path])) for path in paths if path not in differ]
    shown = differ[:MAX_COLUMNS]
    return AlikeTable(
        same=same[:MAX_SAME],
        columns=[_name(path) for path in shown],
        rows=[(card, [_cell(call.get(path)) for path in shown]) for card, call in zip(cards, calls, strict=True)],
        sums=sums_in([card.action for card in cards]),
        more=len(differ) - len(shown) + max(0, len(same) - MAX_SAME),
    )


def sums_in(actions: list[Action]) -> list[tuple[str, str]]:
    """Return what the actions pay together: [(sum with its currency, "")], else [(sum, name of the amount)]."""
    stated = sums_of(actions)
    if stated:
        return [(each, "") for each in stated]
    amounts = [each for each in differing(actions) if each.is_amount]
    return [(total, each.name) for each in amounts if (total := alike_numbers.total(each))]


def _cell(text: str | None) -> Cell:
    return Cell(None) if text is None else Cell(_cut(text), len(text) > MAX_CELL)


def _values(card: Card) -> dict[tuple[str, ...] | None, str]:
    """Return the values of a call by their places: {("amount", "value"): "12"}."""
    found = {PLACE: card.action.workspace.key} if card.action.workspace else {}
    return found | dict(_flat((), card.arguments))


def _flat(path: tuple[str, ...], value):
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from _flat((*path, key), each)
    elif isinstance(value, str) and not LIKE_ANOTHER_TYPE.fullmatch(value):
        yield path, value
    else:
        yield path, json_text.dumps(value, ensure_ascii=False)


def _name(path: tuple[str, ...] | None) -> str:
    return gettext("workspace") if path is PLACE else ".".join(path)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CELL else f"{text[:MAX_CELL]}…"

"""Lists and objects among the arguments of a call, as a card shows them: their size, then a table or an outline."""

import re
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from django.utils.translation import gettext, ngettext

from approvals.pages.alike_numbers import AMOUNTS, PARTS
from approvals.pages.json_text import pretty
from dashboard.templatetags.handrail import thousands

MAX_NAMES = 8  # columns or keys that are named
MANY_FACTS = 12  # arguments up to which each stands on a line of its own; more are one structure
SHORT = 120  # characters of an outline that stands on one line, beside its name
MAX_COLUMNS = 6  # of a table, whose cells wrap: all of it is in view on a phone
MAX_CELL = 200  # characters of a value in a table
FIRST_ROWS, LAST_ROWS, WHOLE_ROWS = 3, 1, 8  # rows beside the fold of a long table; rows up to which it is not folded
CURRENCY = "currency"
# A text that could be taken for another value stands in quotation marks: "1", "true", "", " a".
AMBIGUOUS = re.compile(r"-?\d[\d.eE+-]*|true|false|null|–|\s.*|.*\s|\"(?:.|\n)*|", re.DOTALL)


class Cell(NamedTuple):
    """A value in a table as it is shown, and whether it is a number."""

    text: str
    is_number: bool


class Table(NamedTuple):
    """The rows of a list of like objects, cut in three; the middle is empty if the list is short."""

    columns: list[str]
    head: list[list[Cell]]
    middle: list[list[Cell]]
    tail: list[list[Cell]]

    @property
    def words(self) -> str:
        return gettext("%(n)s more rows") % {"n": thousands(len(self.middle))}

    @property
    def opens(self) -> str:
        return gettext("Open the %(n)s hidden rows to approve") % {"n": thousands(len(self.middle))}


class Structure(NamedTuple):
    """One argument: its name, its size in words ("600 rows · id, name"), and a table of its rows, or an outline."""

    name: str
    size: str
    text: str
    table: Table | None


def is_structure(value) -> bool:
    """Return whether a value is a list or an object that is too large for one line."""
    return isinstance(value, dict | list) and len(pretty(value, indent=None)) > SHORT


def structure_of(name: str, value) -> Structure:
    table = _table(value)
    return Structure(name, _size(value), "" if table else _outline(value), table)


class Line(NamedTuple):
    """A short argument, or a part of one, on a line; `form` says how its values are read back (static/js/attest.js)."""

    name: str
    text: str
    form: str  # text: as it is; plain: a JSON text if it is quoted; list: several of these; json


def lines_of(name: str, value) -> list[Line]:
    """Return a short argument as lines. An object has a line for each key, a list one for all."""
    if isinstance(value, str):
        return [Line(name, value, "text")]
    if isinstance(value, dict) and value and all(_is_plain(each) for each in value.values()):
        return [
            Line(f"{name}.{key if re.fullmatch('[A-Za-z0-9_-]+', key) else pretty(key)}", _plain(value[key]), "plain")
            for key in value
        ]
    if isinstance(value, list) and value and all(_is_plain(each) for each in value):
        shown = (pretty(each) if isinstance(each, str) and "," in each else _plain(each) for each in value)
        return [Line(name, ", ".join(shown), "list")]
    return [Line(name, pretty(value, indent=None), "json")]


def _size(value) -> str:
    if isinstance(value, dict):
        names = list(value)
        size = ngettext("%(n)s entry", "%(n)s entries", len(names)) % {"n": thousands(len(names))}
    elif value and all(isinstance(row, dict) for row in value):
        names = list(dict.fromkeys(key for row in value for key in row))
        size = ngettext("%(n)s row", "%(n)s rows", len(value)) % {"n": thousands(len(value))}
    else:
        names = []
        size = ngettext("%(n)s value", "%(n)s values", len(value)) % {"n": thousands(len(value))}
    shown = ", ".join(names[:MAX_NAMES])
    if len(names) > MAX_NAMES:
        more = {"names": shown, "more": thousands(len(names) - MAX_NAMES)}
        shown = gettext("%(names)s and %(more)s more") % more
    return " · ".join(filter(None, [size, shown, *_sums(value)]))


def _sums(value) -> list[str]:
    """Return what the columns of amounts of a list of objects add up to: ["amount adds up to 12,340.50 (EUR)"]."""
    rows = value if isinstance(value, list) and len(value) > 1 and all(isinstance(row, dict) for row in value) else []
    currencies = {row.get(CURRENCY) if isinstance(row.get(CURRENCY), str) else None for row in rows}
    currency = currencies.pop() if len(currencies) == 1 else None
    said = []
    for name in rows[0] if rows else ():
        numbers = (
            [_number(row.get(name)) for row in rows] if AMOUNTS & {part.lower() for part in PARTS.split(name)} else []
        )
        if numbers and None not in numbers:
            words = gettext("%(name)s adds up to %(sum)s") % {"name": name, "sum": f"{sum(numbers):,}"}
            said.append(f"{words} ({currency})" if currency else words)
    return said


def _number(value) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = Decimal(str(value))
    except InvalidOperation:
        return None
    return found if found.is_finite() and abs(found.adjusted()) < 30 else None


def _table(value) -> Table | None:
    """Return the table of a list of objects with few and short values; None for anything else."""
    if not isinstance(value, list) or len(value) < 2 or not all(isinstance(row, dict) for row in value):
        return None
    columns = list(dict.fromkeys(key for row in value for key in row))
    flat = (each for row in value for each in row.values())
    if not 0 < len(columns) <= MAX_COLUMNS or not all(_is_plain(each) and len(str(each)) <= MAX_CELL for each in flat):
        return None
    rows = [[_cell(row, name) for name in columns] for row in value]
    if len(rows) <= WHOLE_ROWS:
        return Table(columns, rows, [], [])
    return Table(columns, rows[:FIRST_ROWS], rows[FIRST_ROWS:-LAST_ROWS], rows[-LAST_ROWS:])


def _cell(row: dict, name: str) -> Cell:
    if name not in row:
        return Cell("–", False)
    value = row[name]
    return Cell(_plain(value), isinstance(value, int | float) and not isinstance(value, bool))


def _is_plain(value) -> bool:
    return not isinstance(value, dict | list) and not (isinstance(value, str) and "\n" in value)


def _plain(value) -> str:
    """Return a value as it is read; a text in quotation marks only where it could be taken for another value."""
    is_clear = isinstance(value, str) and not AMBIGUOUS.fullmatch(value)
    return value if is_clear else pretty(value, indent=None)


def _outline(value) -> str:
    """Return JSON with each row of a list on a line of its own; what is nested deeper than that is indented."""
    if isinstance(value, list) and all(not _is_nested(row) for row in value):
        return "\n".join(pretty(row, indent=None) for row in value)
    return pretty(value)


def _is_nested(row) -> bool:
    values = row.values() if isinstance(row, dict) else row if isinstance(row, list) else ()
    return any(isinstance(each, dict | list) for each in values)

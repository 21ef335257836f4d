"""Lists and objects among the arguments of a call, as a card shows them: their size, and an outline of their values."""

from typing import NamedTuple

from django.utils.translation import gettext, ngettext

from approvals.pages.json_text import pretty
from dashboard.templatetags.handrail import thousands

MAX_NAMES = 8  # columns or keys that are named
MANY_FACTS = 12  # arguments up to which each stands on a line of its own; more are one structure
SHORT = 120  # characters of an outline that stands on one line, beside its name


class Structure(NamedTuple):
    """One argument: its name, its size in words ("600 rows · id, name"), and its values, one row or key a line."""

    name: str
    size: str
    text: str


def is_structure(value) -> bool:
    """Return whether a value is a list or an object that is too large for one line."""
    return isinstance(value, dict | list) and len(pretty(value, indent=None)) > SHORT


def structure_of(name: str, value) -> Structure:
    return Structure(name, _size(value), _outline(value))


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
    return f"{size} · {shown}" if shown else size


def _outline(value) -> str:
    """Return JSON with each row of a list on a line of its own; what is nested deeper than that is indented."""
    if isinstance(value, list) and all(not _is_nested(row) for row in value):
        return "\n".join(pretty(row, indent=None) for row in value)
    return pretty(value)


def _is_nested(row) -> bool:
    values = row.values() if isinstance(row, dict) else row if isinstance(row, list) else ()
    return any(isinstance(each, dict | list) for each in values)

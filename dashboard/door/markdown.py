"""The declarations as a table in Markdown."""

from itertools import groupby

from dashboard.door.table import VERBS
from dashboard.door.verb import Verb

START, END = "<!-- verbs: python -m dashboard.door -->\n", "<!-- end of verbs -->\n"
HEAD = "| verb | agent's token | Run's token | held | interrupted | stopped | protected paths | secret paths |\n"


def in_place(page: str) -> str:
    """Return the page with the table of today between its two marks."""
    before, _, rest = page.partition(START)
    return before + START + table() + END + rest.partition(END)[2]


def table() -> str:
    """Return the table: verbs of one declaration in a row, those that only people use at the end."""
    by_verb = sorted(VERBS.items(), key=lambda row: (not row[1].agents, list(VERBS.values()).index(row[1])))
    rows = [_row([name for name, _ in rows], verb) for verb, rows in groupby(by_verb, key=lambda row: row[1])]
    return HEAD + "| --- " * 8 + "|\n" + "".join(rows)


def _row(names: list[str], verb: Verb) -> str:
    shown = "<br>".join(f"`{name}`" for name in names)
    if not verb.agents:
        return f"| {shown} | closed | closed | | | | | |\n"
    runs = "open" if verb.runs else "closed"
    held = f"{verb.held}; where nothing can hold it: {verb.unheld}" if verb.held else ""
    cells = [shown, "open", runs, held, _how(verb.interrupted, verb), _how(verb.stopped, verb)]
    return "| " + " | ".join([*cells, verb.protected, verb.secrets]) + " |\n"


def _how(by: str, verb: Verb) -> str:
    return f"refused by the {by}" if by else f"goes on: {verb.why}"

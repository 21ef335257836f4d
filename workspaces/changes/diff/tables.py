"""Diffs of CSV files as rows of cells."""

import csv
from dataclasses import dataclass

from django.utils.safestring import SafeString

from dashboard.text.visible_text import visible

DELIMITERS = {".csv": ",;\t|", ".tsv": "\t"}
MAX_COLUMNS = 60
MAX_BYTES = 1 << 20  # of a file that is shown as a table


@dataclass(frozen=True)
class Cell:
    html: SafeString
    is_changed: bool = False


@dataclass(frozen=True)
class Row:
    """One line of the file. `kind`: same, added, removed."""

    kind: str
    old: int | None
    new: int | None
    cells: list[Cell]


def delimiter_of(path: str, text: bytes) -> str:
    """Return what separates the cells of a table; "" if the file is none that one line of a diff can show."""
    choices = next((found for end, found in DELIMITERS.items() if path.lower().endswith(end)), "")
    if len(text) > MAX_BYTES:
        return ""
    first = text.split(b"\n", 1)[0].decode("utf-8", "surrogateescape")
    best = max(choices, key=first.count, default="")
    # A quoted cell may go on in the next line; such a line alone has an odd number of quotes.
    return best if best and all(line.count(b'"') % 2 == 0 for line in text.split(b"\n")) else ""


def rows_of(lines, delimiter: str) -> list[Row]:
    """Return the lines (sign, old line number, new line number, text) of a hunk as rows of cells."""
    rows: list[Row] = []
    gone: list[list[str]] = []
    come = 0
    for sign, old, new, text in lines:
        cells = _cells(text, delimiter)
        if sign == " ":
            gone, come = [], 0
        elif sign == "-":
            gone.append(cells)
        before = gone[come] if sign == "+" and come < len(gone) else None
        come += sign == "+"
        changed = [before is not None and before[n : n + 1] != [cell] for n, cell in enumerate(cells)]
        shown = [Cell(visible(cell, one_line=True), mark) for cell, mark in zip(cells, changed, strict=True)]
        kind = {" ": "same", "+": "added", "-": "removed"}[sign]
        rows.append(Row(kind, old if sign != "+" else None, new if sign != "-" else None, shown))
    return rows


def _cells(text: str, delimiter: str) -> list[str]:
    try:
        cells = next(csv.reader([text.rstrip("\r\n")], delimiter=delimiter), [])
    except csv.Error:  # a cell beyond the module's limit
        cells = [text]
    if len(cells) > MAX_COLUMNS:
        return [*cells[: MAX_COLUMNS - 1], delimiter.join(cells[MAX_COLUMNS - 1 :])]
    return cells

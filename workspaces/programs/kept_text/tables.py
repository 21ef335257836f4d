"""Read a text as a table: CSV, TSV, JSON lines, or one row for each line."""

import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

from dashboard import json_text
from workspaces.programs.kept_text.lines import Refused

MAX_COLUMNS, MAX_NAME = 200, 100
MAX_BYTES = 128 * 1024**2  # of a text
SEPARATORS = {"csv": ",", "tsv": "\t"}
ROWS = 1000  # looked at together
ASK_LINES = "Use the format `lines`, and take the values from the column `text`."
NOT_KEPT = b" bytes were not kept]"  # of a gap in a recording
WHOLE = 2**63  # SQLite's integers are below
# pattern: these meet texts of whoever asks in a process that is ended when it takes too long
_GAP = re.compile(r"\[[0-9,]{1,30} bytes were not kept\]\r?\n?")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_REAL = re.compile(r"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?(?:[eE][+-]?[0-9]{1,3})?")


@dataclass
class Table:
    """A text as rows. `left_out` counts, while they are read, the lines that are no row; `gaps` what was not kept."""

    data: bytes
    first_line: int = 1
    format: str = "auto"
    columns: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    left_out: int = 0
    gaps: int = 0

    def __post_init__(self):
        csv.field_size_limit(MAX_BYTES)
        if self.format == "auto":
            self.format = _guessed(next(filter(str.strip, self._lines()), ""))
        if self.format == "lines":
            self.columns, self.types = ["n", "text"], ["INTEGER", "TEXT"]
        elif self.format == "jsonl":
            self.columns = _names(self._keys())
            self.types = [""] * len(self.columns)
        else:
            self.columns = _names(next(self._records(), []))
            self.types = self._types()
        self.left_out = self.gaps = 0

    def rows(self) -> Iterator:
        """Yield the rows, the numbers of a CSV or TSV as texts. Raise Refused."""
        if self.format == "lines":
            return enumerate((line.rstrip("\r\n") for line in self._lines()), self.first_line)
        return self._objects_as_rows() if self.format == "jsonl" else self._records(1)

    def _lines(self) -> Iterator[str]:
        """Yield the lines from the first one on; a line that was cut where output was not kept is left out."""
        text = io.TextIOWrapper(io.BytesIO(self.data), "utf-8", "replace", newline="\n")
        lines = islice(text, self.first_line - 1, None)
        return self._whole(lines) if self.format != "lines" and NOT_KEPT in self.data else lines

    def _whole(self, lines: Iterable[str]) -> Iterator[str]:
        held, is_cut = None, False
        for line in lines:
            if _GAP.fullmatch(line):
                self.gaps += 1
                self.left_out += 1 + (held is not None)
                held, is_cut = None, True
                continue
            if held is not None:
                yield held
            held, is_cut, self.left_out = (None if is_cut else line), False, self.left_out + is_cut
        if held is not None:
            yield held

    # JSON lines -------------------------------------------------------------------------------------------------------

    def _objects(self) -> Iterator[dict]:
        for line in filter(str.strip, self._lines()):
            found = _object(line)
            if found is None:
                self.left_out += 1
            else:
                yield found

    def _keys(self) -> list[str]:
        names: dict[str, None] = {}
        for found in self._objects():
            names.update(dict.fromkeys(found))
            _check_number(len(names))
        self._names = list(names)
        return self._names

    def _objects_as_rows(self) -> Iterator[tuple]:
        return (tuple(_value(found.get(name)) for name in self._names) for found in self._objects())

    # CSV and TSV ------------------------------------------------------------------------------------------------------

    def _records(self, skipped: int = 0) -> Iterator[list[str]]:
        """Yield the fields of each row, the header first; a row with more or fewer fields is left out."""
        reader = csv.reader(self._lines(), delimiter=SEPARATORS[self.format])
        return islice(self._of_one_width(reader), skipped, None)

    def _of_one_width(self, reader) -> Iterator[list[str]]:
        width = 0
        try:
            for fields in filter(None, reader):
                if len(fields) != (width := width or len(fields)):
                    self.left_out += 1
                else:
                    yield fields
        except csv.Error as error:
            line = reader.line_num + self.first_line - 1
            reason = str(error).partition(" - ")[0]  # without its advice to Python programmers
            raise Refused(f"Line {line:,} is no {self.format.upper()}: {reason}. {ASK_LINES}") from None

    def _types(self) -> list[str]:
        """Return INTEGER, REAL or TEXT for each column: a number as which all its values can be read, or none."""
        kinds, records = [None] * len(self.columns), self._records(1)
        while some := list(islice(records, ROWS)):
            for place, values in enumerate(zip(*some, strict=True)):
                if kinds[place] != "TEXT":
                    kinds[place] = _type_of(values, kinds[place])
        return [kind or "TEXT" for kind in kinds]


def _type_of(values: Iterable[str], before: str | None) -> str | None:
    """Return the type of a column with these values and earlier ones of the type `before`; None if all are empty."""
    given = list(filter(None, values))
    if not given:
        return before
    if before != "REAL" and all(map(_INTEGER.fullmatch, given)):
        return "INTEGER"
    return "REAL" if all(map(_REAL.fullmatch, given)) else "TEXT"


def whole(pieces: Iterable[bytes]) -> bytes:
    """Return all of a text. Raise Refused if there are too many bytes for a table."""
    kept, size = [], 0
    for piece in pieces:
        size += len(piece)
        if size > MAX_BYTES:
            raise Refused(
                f"The text has more than {MAX_BYTES // 1024**2} MB, which SQL can't be asked about. Search it."
            )
        kept.append(piece)
    return b"".join(kept)


def _guessed(line: str) -> str:
    if line.lstrip().startswith("{") and _object(line) is not None:
        return "jsonl"
    return next((name for name in ("tsv", "csv") if SEPARATORS[name] in line), "lines")


def _object(line: str) -> dict | None:
    try:
        found = json_text.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _value(found):
    """Return a JSON value as SQLite keeps it: what has parts, and a number that it can't hold, as JSON."""
    if isinstance(found, str):
        return _encodable(found)
    if found is None or isinstance(found, float):
        return found
    if isinstance(found, int) and -WHOLE <= found < WHOLE:
        return int(found)
    return json_text.dumps(found, ensure_ascii=False)


def _encodable(text: str) -> str:
    """Return the text with a question mark for each half of a surrogate pair, which JSON can hold and UTF-8 can't."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _names(header: Iterable[str]) -> list[str]:
    """Return names of columns that SQL tells apart, of a header."""
    names: list[str] = []
    taken: set[str] = set()
    for number, given in enumerate(header, 1):
        _check_number(number)
        name = base = _encodable(given).strip().lstrip("\ufeff").replace("\0", "␀")[:MAX_NAME] or f"column_{number}"
        again = chain([base], (f"{base}_{count}" for count in range(2, MAX_COLUMNS + 2)))
        name = next(each for each in again if each.lower() not in taken)
        taken.add(name.lower())
        names.append(name)
    if not names:
        raise Refused("There is no row in the text.")
    return names


def _check_number(number: int):
    if number > MAX_COLUMNS:
        raise Refused(f"The table has more than {MAX_COLUMNS} columns. {ASK_LINES}")

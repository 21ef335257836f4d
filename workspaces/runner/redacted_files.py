"""Secret files that a held program may read while their values are redacted in its output."""

import json
import os
import posixpath
import re
import stat
import sys
from urllib.parse import urlsplit

from dashboard.keys.secret_forms import MIN_BYTES
from dashboard.problems import Problem
from workspaces import secrets
from workspaces.runner import files, tree_access
from workspaces.runner.measure import known_files
from workspaces.shim.pool import PROJECT

MAX_BYTES = 64 << 10  # of one file
MAX_VALUES = 400  # in all files of one program
MAX_VALUE_BYTES = 32 << 10  # of all values together: they are written into one pipe before anybody reads it
MAX_OFFERED = 20
SECONDS = 2.0
MIN_WORD = 16  # bytes of a word or line that counts as a value where nothing is assigned
_ASSIGNED = re.compile(r"""\s*(?:export\s+)?["']?([A-Za-z_][\w.-]*)["']?\s*[=:]""")


def offered(tree) -> list[str]:
    """Return the secret files of a tree whose values can be redacted, as paths in it."""
    found = [os.fsdecode(path) for path in known_files.secrets(tree, seconds=SECONDS)]
    return [path for path in sorted(found) if _read(tree, path) is not None][:MAX_OFFERED]


async def prepare(daemon, workspace, envelope: dict, root: str) -> tuple[dict, list[tuple[str, str]]]:
    """Return (the envelope, the values to redact) for a program that starts now in the tree at `root`.

    A file whose values cannot be told is dropped from the envelope, so it stays masked.
    """
    wanted = envelope.get("redacted")
    if not wanted:
        return envelope, []
    tree = await tree_access.readable_tree(daemon, workspace)
    kept, values = await daemon.thread(_values, tree, root, wanted)
    rest = {name: value for name, value in envelope.items() if name != "redacted"}
    return rest | ({"redacted": kept} if kept else {}), values


def redactor() -> list[str]:
    """Return the command of a process that redacts a stream (`workspaces/shim/redact_stream.py`)."""
    places = [secrets.PACKAGES, str(PROJECT)]
    start = f"import sys; sys.path[:0] = {places!r}; from workspaces.shim.redact_stream import main; main()"
    return [sys.executable, "-I", "-S", "-c", start]


def _values(tree, root: str, wanted: list[str]) -> tuple[list[str], list[tuple[str, str]]]:
    kept, found, size = [], {}, 0
    for path in wanted:
        inside = posixpath.relpath(path, root)
        data = None if inside.startswith("../") else _read(tree, inside)
        if data is None:
            continue
        here = values_in(data, posixpath.basename(path))
        size += sum(len(value.encode()) for _name, value in here)
        if size > MAX_VALUE_BYTES or len(found) + len(here) > MAX_VALUES:
            break
        kept.append(path)
        found |= dict.fromkeys(here)
    return kept, list(found)


def _read(tree, path: str) -> str | None:
    """Return the text of a regular file; None for anything else."""
    try:
        with files.opened(tree, os.fsencode(path)) as file:
            if not stat.S_ISREG(file.info.st_mode):
                return None
        return files.read(tree, os.fsencode(path), MAX_BYTES).decode()
    except (Problem, UnicodeDecodeError):
        return None


def values_in(text: str, file: str) -> list[tuple[str, str]]:
    """Return (name, value) of what a secret file holds; values of less than eight bytes cannot be redacted.

    Read are lines that assign (`KEY=value`, `key: value`), JSON, and else each line and word of sixteen bytes or more.
    """
    found = _in_json(text, file) or [each for line in text.splitlines() for each in _in_line(line, file)]
    with_parts = [(name, part) for name, value in found for part in _parts(value)]
    return list(dict.fromkeys((name, value) for name, value in with_parts if len(value.encode()) >= MIN_BYTES))


def _in_json(text: str, file: str) -> list[tuple[str, str]]:
    try:
        waiting = [(file, json.loads(text))]
    except (ValueError, RecursionError):
        return []
    found = []
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(name, each) for each in value]
        elif isinstance(value, str):
            found.append((name, value))
    return found


def _in_line(line: str, file: str) -> list[tuple[str, str]]:
    if line.lstrip().startswith("#"):
        return []
    if assigned := _ASSIGNED.match(line):
        name, value = assigned[1], line[assigned.end() :].strip().removesuffix(",").rstrip()
        quote = value[:1] if value[:1] in ("'", '"', "`") else ""
        if quote and (end := value.find(quote, 1)) > 0:
            return [(name, value[1:end])]
        return [(name, value), (name, value.split(" #", 1)[0].strip())]
    return [(file, word) for word in (line.strip(), *line.split()) if len(word) >= MIN_WORD]


def _parts(value: str):
    """Yield the value, and the password of a URL by itself."""
    yield value
    try:
        if "://" in value and (password := urlsplit(value).password):
            yield password
    except ValueError:
        return

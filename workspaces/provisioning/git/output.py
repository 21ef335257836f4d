"""What git and a source's host said, for people: cleaned, cut, and without paths of this host."""

import re

from django.conf import settings

MAX_LINES, MAX_LINE = 50, 500
READ_LINES, READ_TIMES = (
    1000,
    8,
)  # lines that are looked at; how much longer than shown a line may be before it is cleaned

_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colors, cursor movements
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\x90\x98\x9d-\x9f]*(?:\x07|\x1b\\|\x9c|$)"  # titles
    r"|\x1b[ -/]*[0-~]"
)
_PROGRESS = re.compile(
    r"(?:Enumerating|Counting|Compressing|Receiving|Resolving|Unpacking|Writing|Checking) [a-z ]+: +\d+|Total \d+ \("
)
_PATHS = re.compile(r"(?<=')(?:file://)?/[^']*|(?<![\w.:/~'-])(?:file://)?/[^\s'\",;:)]+")
_BESIDE_IT = re.compile(  # lines that say nothing beside the one that says what is wrong
    r"hint:|warning:|remote:|To |Please make sure you have|and the repository exists"
    r"|error: failed to push some refs|error: unable to read askpass|fatal: Could not read from remote repository"
)


def clean(text: str, limit: int = MAX_LINE) -> str:
    """Return untrusted text as one line without escape sequences, control characters and those that reorder a line."""
    read = text[: READ_TIMES * limit]
    plain = "".join(each if each.isprintable() else " " for each in _ESCAPES.sub("", read))
    line = " ".join(plain.split())
    return line if len(line) <= limit and read == text else f"{line[: limit - 1]}…"


def remote_lines(said: str) -> list[str]:
    """Return what the host said, one text for each line, without its progress."""
    heard = [line.removeprefix("remote:") for line in _lines(said) if line.startswith("remote:")]
    lines = [line for line in map(clean, heard[:READ_LINES]) if line and not _PROGRESS.match(line)]
    count = len(lines) + len(heard[READ_LINES:])
    lines = [without_ours(line) for line in lines[:MAX_LINES]]
    if count > MAX_LINES:
        return [*lines[: MAX_LINES - 1], f"… and {count - len(lines[: MAX_LINES - 1]):,} more lines"]
    return lines


def sentence(said: str, status: int) -> str:
    """Return the line of git's own that says what went wrong; its paths can only be of this host."""
    lines = [line for line in map(clean, _lines(said)[-READ_LINES:]) if line]
    telling = [line for line in lines if not _BESIDE_IT.match(line)] or lines
    named = [line for line in telling if line.startswith(("fatal:", "error:"))] or telling
    return _PATHS.sub("…", named[-1]) if named else f"exit status {status}"


def joined(lines: list[str], limit: int = 1000) -> str:
    """Return what a host said as a part of a message."""
    return clean(" ".join(lines), limit)


def _lines(said: str) -> list[str]:
    return re.split(r"[\r\n]+", said)


def without_ours(line: str) -> str:
    """Return a line without the paths of Handrail's data and of local sources."""
    for root in (settings.HANDRAIL_HOME, *settings.HANDRAIL_LOCAL_SOURCES):
        # pattern: the line is cut, and the folder's name is Handrail's own
        line = re.sub(rf"(?<![\w.:/])(?:file://)?{re.escape(str(root).rstrip('/'))}/[^\s'\",;:)]*", "…", line)
    return line

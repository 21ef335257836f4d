"""Diffs from textual patches: Codex's apply_patch, and the output of `git diff`."""

import re

from workspaces.changes.diff import FileDiff, dress
from workspaces.changes.highlight import deadline

HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)")
HEADS = {"new file": "added", "deleted file": "deleted", "rename from": "renamed"}


def files_of(edits) -> list[tuple[str, bytes | None, bytes | None]]:
    """Return [(path, before, after)] of a patch's edits, with only its own lines; None if there is no file then."""
    return [_file(edit) for edit in edits]


def _file(edit):
    before, after = (_text(edit, signs) for signs in (" -", " +"))
    if edit.verb == "update":
        return " → ".join(edit.paths), before, after
    return edit.path, *((None, after) if edit.verb == "add" else (b"", None))


def _text(edit, signs: str) -> bytes:
    return "".join(f"{text}\n" for sign, text in edit.lines if sign in signs).encode(errors="surrogatepass")


def diffs_of(patch: str) -> list[FileDiff]:
    """Parse the output of `git diff` into one FileDiff for each file."""
    until = deadline()
    return [_diff(part, until) for part in re.split(r"(?m)^diff --git ", patch)[1:]]


def _diff(part: str, until: float) -> FileDiff:
    lines, hunks, old, new = part.split("\n"), [], 0, 0
    diff = FileDiff(lines[0].split(" b/", 1)[-1], "modified")
    for line in lines[1:]:
        if match := HUNK.match(line):
            old, new = int(match[1]), int(match[2])
            hunks.append((match[3].strip(), []))
        elif hunks and line[:1] in (" ", "+", "-"):
            hunks[-1][1].append((line[0], old, new, line[1:] + "\n"))
            old, new = old + (line[0] != "+"), new + (line[0] != "-")
        elif not hunks:
            diff.kind = next((kind for head, kind in HEADS.items() if line.startswith(head)), diff.kind)
            diff.binary = diff.binary or line.startswith("Binary files ")
    return dress(diff, hunks, until=until)

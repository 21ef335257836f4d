"""The parts of evidence, and the time limit for gathering it."""

import base64
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

from django.utils.translation import gettext_noop

from workspaces.changes import history
from workspaces.changes.diff import FileDiff, split

EVIDENCE_TIMEOUT = 2.0  # for all evidence of one card
UNKNOWN = gettext_noop("Effect unknown until it runs.")
MAX_UNFOLDED_LINES = 40  # lines; of a longer diff only the first are shown, and the folded rest must be read to its end
FIRST_LINES = 12  # lines of a long diff that are shown first


class TimeLimit:
    """A deadline. At least 50 ms are always left, as a shorter timeout for the runner is pointless."""

    def __init__(self, seconds: float = EVIDENCE_TIMEOUT):
        self.until = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return max(0.05, self.until - time.monotonic())


class Allowance:
    """The seconds that the evidence of several actions may take together; `left` of them."""

    def __init__(self, seconds: float = EVIDENCE_TIMEOUT):
        self.left = seconds

    @contextmanager
    def spending(self):
        began = time.monotonic()
        try:
            yield self.left
        finally:
            self.left = max(0.0, self.left - (time.monotonic() - began))


@dataclass
class Finding:
    """What one sub-command would do. `text` is the sub-command, `line` its number, from 1; `says` are sentences.

    `names` are paths, packages or addresses; `commits` are (short id, subject); `files` (path, added, removed).
    """

    line: int
    text: str
    says: list[str]
    names: list[str] = field(default_factory=list)
    commits: list[tuple[str, str]] = field(default_factory=list)
    files: list[tuple[str, int | None, int | None]] = field(default_factory=list)
    more: int = 0  # names, or files, that are not listed
    has_diff: bool = False  # what it sends can be shown, on a page of its own

    @property
    def is_known(self) -> bool:
        return not self.says or not self.says[0].startswith(UNKNOWN)

    def as_json(self) -> dict:
        return {
            "line": self.line,
            "text": self.text,
            "says": [_json_text(text) for text in self.says],
            "names": [_named(name) for name in self.names],
            "commits": [{"sha": sha, "subject": _json_text(subject)} for sha, subject in self.commits],
            "files": [{**_named(path), "additions": new, "deletions": old} for path, new, old in self.files],
            "more": self.more,
        }


@dataclass
class Evidence:
    """What a call would do: a diff for a file, findings for everything else, and a sentence in `says` for both."""

    says: str
    diff: FileDiff | None = None
    findings: list[Finding] = field(default_factory=list)
    numbered: bool = False  # there is more than one sub-command, so each finding names its own
    others: list[FileDiff] = field(default_factory=list)  # further diffs, if it changes more than one file or place

    @property
    def is_known(self) -> bool:
        return not self.says.startswith(UNKNOWN)

    @property
    def with_repeats(self) -> list[tuple[Finding, bool]]:
        """The findings, each with whether it says the same as the one before it."""
        before = [None, *(finding.says for finding in self.findings)]
        return [(finding, finding.says == says) for finding, says in zip(self.findings, before, strict=False)]

    @property
    def is_long(self) -> bool:
        return self.lines > MAX_UNFOLDED_LINES

    @property
    def lines(self) -> int:
        return sum(len(hunk.lines) for hunk in self.diff.hunks) if self.diff else 0

    @cached_property
    def parts(self) -> tuple[FileDiff, FileDiff]:
        """The diff split in two: the first FIRST_LINES lines, and the rest, which is folded."""
        return split(self.diff, FIRST_LINES)

    @property
    def more(self) -> int:
        return self.lines - FIRST_LINES

    def as_json(self) -> dict:
        found = [finding.as_json() for finding in self.findings]
        return {"says": self.says, "diff": self.diff and _diff_as_json(self.diff), "findings": found} | {
            "diffs": [_diff_as_json(diff) for diff in (self.diff, *self.others) if diff]
        }


def _diff_as_json(diff: FileDiff) -> dict:
    counts = {"additions": diff.additions, "deletions": diff.deletions, "binary": diff.binary}
    return {**_named(diff.path), "kind": diff.kind} | counts


def _json_text(text: str) -> str:
    """Return text that JSON can hold: bytes that are not UTF-8 are escaped."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _named(name: str) -> dict:
    try:
        return history.path_fields("path", name.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:  # a lone surrogate that stands for no byte
        raw = name.encode("utf-8", "surrogatepass")
        return {"path": raw.decode("utf-8", "backslashreplace"), "path_b64": base64.b64encode(raw).decode()}

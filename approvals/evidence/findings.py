"""What evidence is made of, and how long anybody waits for it."""

import base64
import time
from dataclasses import dataclass, field
from functools import cached_property

from workspaces import history
from workspaces.diffs import FileDiff, split

SECONDS = 2.0  # for all evidence of one card
UNKNOWN = "Not known before it runs."
LONG_DIFF = 40  # lines; of a longer difference all but the first are folded and must be read to their end
FIRST_LOOK = 12


class Patience:
    """The time that is left; asking the runner for less than a blink is not worth it."""

    def __init__(self, seconds: float = SECONDS):
        self.until = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return max(0.05, self.until - time.monotonic())


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

    def as_json(self) -> dict:
        return {
            "line": self.line,
            "text": self.text,
            "says": [_told(text) for text in self.says],
            "names": [_named(name) for name in self.names],
            "commits": [{"sha": sha, "subject": _told(subject)} for sha, subject in self.commits],
            "files": [{**_named(path), "additions": new, "deletions": old} for path, new, old in self.files],
            "more": self.more,
        }


@dataclass
class Evidence:
    """What is known of the effect before it runs: a difference for a file, findings for all else, `says` for both."""

    says: str
    diff: FileDiff | None = None
    findings: list[Finding] = field(default_factory=list)
    numbered: bool = False  # there is more than one sub-command, so each is named

    @property
    def is_long(self) -> bool:
        return self.lines > LONG_DIFF

    @property
    def lines(self) -> int:
        return sum(len(hunk.lines) for hunk in self.diff.hunks) if self.diff else 0

    @cached_property
    def parts(self) -> tuple[FileDiff, FileDiff]:
        """What a first look shows, and the rest, which has to be opened."""
        return split(self.diff, FIRST_LOOK)

    @property
    def more(self) -> int:
        return self.lines - FIRST_LOOK

    def as_json(self) -> dict:
        diff = self.diff and {
            **_named(self.diff.path),
            "kind": self.diff.kind,
            "additions": self.diff.additions,
            "deletions": self.diff.deletions,
            "binary": self.diff.binary,
        }
        return {"says": self.says, "diff": diff, "findings": [finding.as_json() for finding in self.findings]}


def _told(text: str) -> str:
    """A text that JSON can hold; a byte that is not UTF-8 is written out."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _named(name: str) -> dict:
    try:
        return history.named("path", name.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:  # a lone surrogate that stands for no byte
        raw = name.encode("utf-8", "surrogatepass")
        return {"path": raw.decode("utf-8", "backslashreplace"), "path_b64": base64.b64encode(raw).decode()}

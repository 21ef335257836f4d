"""Lines of an environment's list: a host, or a host whose TLS is opened, with the methods and paths that pass there."""

from collections.abc import Iterable
from typing import NamedTuple

from .leash import BadLeash, Scope, read_scope, read_words, written
from .names import MAX_RULES, BadName, Rule, read_rule
from .registries import REGISTRIES

# Lines that a word stands for, in the list of the agent; without methods in that of the setup.
PRESETS = {
    "@registries": tuple(f"{host} READ" for hosts in REGISTRIES.values() for host in hosts),
    "@read-github": (
        "github.com READ",
        "api.github.com READ",
        "codeload.github.com READ",
        "raw.githubusercontent.com READ",
        "objects.githubusercontent.com READ",
        "release-assets.githubusercontent.com READ",
    ),
    "@read-gitlab": ("gitlab.com READ",),
    "@docs": (
        "developer.mozilla.org READ",
        "docs.djangoproject.com READ",
        "docs.github.com READ",
        "docs.python.org READ",
        "docs.rs READ",
        "doc.rust-lang.org READ",
        "go.dev READ",
        "nodejs.org READ",
        "pkg.go.dev READ",
    ),
}


class Line(NamedTuple):
    """An allowed host, and the requests that pass there; None: whatever it is, in TLS that is not opened."""

    rule: Rule
    scope: Scope | None

    def __str__(self):
        if self.scope is None:
            return str(self.rule)
        return written({"host": str(self.rule), "methods": sorted(self.scope.methods), "paths": self.scope.paths})


def read_line(text: str) -> Line:
    """Parse `example.org`, or `example.org GET,POST /path/*`. Raise BadName."""
    if not text.split()[1:]:
        return Line(read_rule(text), None)
    words = read_words(text)
    rule = read_rule(words["host"])
    if rule.below:
        raise BadName(f"{rule} can't have methods: TLS is opened to hosts that are named. Write one line for each.")
    try:
        return Line(rule, read_scope(words["paths"], words["methods"]))
    except BadLeash as error:
        raise BadName(f"{text.strip()[:100]!r}: {error}") from None


def read_lines(texts: Iterable[str], *, opens: bool = True) -> tuple[Line, ...]:
    """Parse lines, write presets out and drop duplicates. Raise BadName.

    `opens`: whether methods can be held to; without, those of a preset are left out.
    """
    found: dict[Line, None] = {}
    for text in texts:
        word = text.strip()
        if word.startswith("@") and word not in PRESETS:
            raise BadName(f"There is no preset {word[:80]!r}. There are {', '.join(PRESETS)}.")
        for one in PRESETS.get(word, (word,)):
            line = read_line(one)
            if line.scope and not opens:
                if one is word:
                    raise BadName(f"{one[:100]!r}: methods are held to for the agent alone, where TLS is opened.")
                line = Line(line.rule, None)
            found[line] = None
    _check(tuple(found))
    return tuple(found)


def _check(lines: tuple[Line, ...]):
    if len(lines) > MAX_RULES:
        raise BadName(f"At most {MAX_RULES} hosts; these are {len(lines)}.")
    plain = {line.rule for line in lines if line.scope is None}
    if both := [line.rule for line in lines if line.scope and line.rule in plain]:
        raise BadName(f"{both[0]} is listed with methods and without: leave one of the lines out.")


def scopes_at(lines: Iterable[Line], host: str, port: int) -> tuple[Scope, ...]:
    """Return what passes at a host that a line opens, whatever other line names it; nothing: it is not opened."""
    return tuple(line.scope for line in lines if line.scope and line.rule.allows(host, port))

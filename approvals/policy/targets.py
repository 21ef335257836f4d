"""Targets: a team's own names, such as staging and production, for clusters, hosts, accounts, databases and branches.

A call has destinations, each with the names by which its text says where it acts. A target is *possible* for a call if
any of that may mean it, and *certain* only if every destination is named, and named as this target and no other.
"""

import re
from dataclasses import dataclass, field

from .globs import Glob
from .step_budget import spend
from .verdict import PolicyError
from .web import is_loopback, is_private

KINDS = {
    "kube": "a context of kubectl or helm, or the name of a kubeconfig file",
    "namespace": "a namespace of a cluster",
    "host": "a host that is contacted",
    "branch": "a branch that is pushed to",
    "aws": "a profile of the AWS client",
    "gcloud": "a project or a configuration of gcloud",
    "azure": "a subscription of az",
    "db": "the name of a database",
    "terraform": "a workspace, or the folder that terraform runs in",
    "app": "an app of a hosting service",
    "env": "an argument named environment, env or stage",
    "mcp": "the name of an MCP server",
}
OWN_NAMES = ("env", "terraform")  # kinds for which the target's own name counts without an entry in the table
ALIASES = {
    "production": ("production", "prod", "prd"),
    "staging": ("staging", "stage", "stg"),
    "development": ("development", "dev"),
}
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
MAX_TARGETS, MAX_PATTERNS, MAX_PATTERN = 50, 200, 200
PARTS = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class Name:
    """One name of a destination: a kind of KINDS or ANY, and its value; None if the text does not say it for sure."""

    kind: str
    value: str | None = None


@dataclass(frozen=True)
class Destination:
    """A system that a call acts on. `hints`: further words that may say which one it is.

    `is_open`: nothing in the text limits which one it is, unless a hint says so.
    """

    names: tuple = ()
    hints: tuple = ()
    is_open: bool = False

    @property
    def named(self):
        return [name for name in self.names if name.value is not None]

    @property
    def unknown(self):
        """Return the kinds of the names that are not certain."""
        return {name.kind for name in self.names if name.value is None}


@dataclass(frozen=True)
class Target:
    """One target of a table: {kind: patterns}.

    `exceptions` are the patterns of other targets that lie wholly within one of these: `*.staging.shop.example` within
    `*.shop.example`.
    """

    name: str
    patterns: dict
    exceptions: dict = field(default_factory=dict)
    entries: tuple = ()  # (kind, pattern as text)

    def examples(self):
        """Return {kind: names that the table says are of the target}, one for each entry."""
        found = {}
        for kind, text in self.entries:
            names = [name for name in (text.replace("*", "x"), text.replace("*", "")) if name and name[0] not in "-."]
            found.setdefault(kind, []).extend(name for name in names[:1] if self.covers(Name(kind, name)))
        return found

    @property
    def words(self):
        """Return the words that mean this target where they are a part of a name: its own and common short forms."""
        own = self.name.lower()
        return next((words for words in ALIASES.values() if own in words), (own,))

    def covers(self, name):
        """Return whether the table says that this name is of the target."""
        value = name.value.lower()
        if any(pattern.fits(value) for pattern in self.patterns.get(name.kind, ())):
            return not any(pattern.fits(value) for pattern in self.exceptions.get(name.kind, ()))
        return name.kind in OWN_NAMES and value.rstrip("/").rpartition("/")[2] == self.name.lower()

    def resembles(self, text):
        """Return whether a text has the target's name, or a short form of it, as one of its words."""
        spend(2 + len(text) // 16)
        parts = PARTS.split(text.lower())
        own = PARTS.split(self.name.lower())
        if len(own) > 1 and any(parts[at : at + len(own)] == own for at in range(len(parts))):
            return True
        return not set(self.words).isdisjoint(parts)

    def may_be(self, kind):
        """Return whether a name of this kind that is not certain could be of the target."""
        return kind == "env" or kind in self.patterns

    def is_named_by(self, destination):
        """Return whether a name or a hint of the destination means this target, or may mean it."""
        if any(self.covers(name) or self.resembles(name.value) for name in destination.named):
            return True
        return any(map(self.resembles, destination.hints))

    def is_possible_for(self, destination, table):
        """Return whether the destination may be this target of the table."""
        if any(map(self.may_be, destination.unknown)) or self.is_named_by(destination):
            return True
        return destination.is_open and not any(target.is_named_by(destination) for target in table)

    def is_certain_for(self, destination, table):
        """Return whether the destination is this target and, by its names and hints, can be no other of the table."""
        covered = [name for name in destination.named if self.covers(name)]
        if not covered or any(target.may_be(kind) for kind in destination.unknown for target in table):
            return False
        others = [target for target in table if target is not self]
        for name in destination.named:
            is_own = name in covered
            if not is_own and any(other.covers(name) or other.resembles(name.value) for other in others):
                return False
            if name.kind == "host" and not is_own and not is_loopback(name.value) and not is_private(name.value):
                return False  # a public host that the table does not name, whatever the database there is called
        return not any(
            other.resembles(hint) and not self.resembles(hint) for hint in destination.hints for other in others
        )


def read_targets(data):
    """Return {name: Target} of the table `targets` of a policy. PolicyError says what is wrong with it."""
    if not isinstance(data, dict):
        raise PolicyError('targets is a table, such as production = ["kube:prod-*", "host:db.prod"].')
    if len(data) > MAX_TARGETS:
        raise PolicyError(f"A policy can have at most {MAX_TARGETS} targets.")
    entries = {name: _entries(name, texts) for name, texts in data.items()}
    return {name: _target(name, entries) for name in data}


def _entries(name, texts):
    """Return the (kind, pattern) of one target."""
    if not NAME.fullmatch(name):
        raise PolicyError(
            f"{name!r} is no name of a target: it begins with a letter, and has letters, digits, - and _."
        )
    if not isinstance(texts, list) or not texts:
        raise PolicyError(f'The target {name} needs a list of what belongs to it, such as ["kube:{name}-*"].')
    if len(texts) > MAX_PATTERNS:
        raise PolicyError(f"The target {name} has more than {MAX_PATTERNS} entries.")
    return [_pattern(name, text) for text in texts]


def _target(name, entries):
    others = {entry for other, listed in entries.items() if other != name for entry in listed}
    patterns, exceptions = {}, {}
    for kind, text in entries[name]:
        wide = Glob(text)
        patterns.setdefault(kind, []).append(wide)
        within = (inner for own, inner in others if own == kind and wide.fits(inner) and not Glob(inner).fits(text))
        exceptions.setdefault(kind, []).extend(map(Glob, within))
    return Target(name, patterns, exceptions, tuple(entries[name]))


def _pattern(name, text):
    kind, colon, pattern = text.partition(":") if isinstance(text, str) else ("", "", "")
    pattern = pattern.strip()
    if not colon or not pattern or len(pattern) > MAX_PATTERN:
        raise PolicyError(f"{text!r} of the target {name} is not written as kind:name, such as kube:prod-*.")
    if kind not in KINDS:
        raise PolicyError(f"{kind!r} of the target {name} is no kind; the kinds are {', '.join(KINDS)}.")
    if not pattern.strip("*"):
        raise PolicyError(f"{text} of the target {name} would be every {kind}; name a part of it.")
    if kind == "host" and re.search(r"[/@]|:\d+$", pattern):
        raise PolicyError(f"{text} of the target {name}: write the host alone, without scheme, user, port or path.")
    return kind, pattern.lower()

"""The words the engine answers in: tiers, effects, one entry for each sub-command, and the verdict."""

from dataclasses import dataclass, field

TIERS = ("low", "medium", "high", "critical", "forbidden")
ALLOWING = ("medium", "low")
RESTRICTING = ("forbidden", "critical", "high")


class PolicyError(ValueError):
    """A policy or a rule that cannot be stored; the message is a sentence for the form."""


def worst(tiers):
    """Return the most careful of some tiers; low when there are none."""
    return max(tiers, key=TIERS.index, default="low")


@dataclass(frozen=True)
class Effect:
    """One thing that a sub-command does.

    `kind`: read, write, delete, run, start, network, push, remote, install, local, harmful, unknown, unclear, hidden.
    `says` completes "line 1 …". `spelled` is the word a rule must contain literally before it covers this effect.
    `tier` is what the first mode gives it. `undo`: yes, partly or no.
    """

    kind: str
    says: str
    tier: str
    undo: str = "yes"
    target: str = ""
    spelled: tuple = ()
    place: object = None
    more: tuple = ()  # further targets


@dataclass
class SubCommand:
    """One simple command as it will run, for the card and for evidence by verb."""

    text: str
    line: int
    words: list
    tier: str = "high"
    undo: str = "partly"
    what: str = "run"
    targets: list = field(default_factory=list)
    reason: str = ""
    rule: str | None = None
    cwd: str = ""  # the folder it runs in; empty where that is not certain
    headline: str = ""
    effects: list = field(default_factory=list)

    def as_dict(self):
        return {
            "text": self.text,
            "line": self.line,
            "words": self.words,
            "tier": self.tier,
            "undo": self.undo,
            "what": self.what,
            "targets": self.targets,
            "reason": self.reason,
            "rule": self.rule,
            "cwd": self.cwd,
        }


@dataclass
class Verdict:
    """What the policy says about one action; `commands` is a list of dicts (see SubCommand)."""

    tier: str
    reasons: list
    rule: str | None = None
    undo: str = "partly"
    title: str = ""
    commands: list = field(default_factory=list)


def undo_of(effects):
    """Say whether a snapshot of the workspace undoes all of these effects, some, or none that matter."""
    lasting = {effect.undo for effect in effects}
    if lasting <= {"yes"}:
        return "yes"
    changes = any(effect.undo == "yes" and effect.kind in ("write", "delete", "run", "local") for effect in effects)
    return "no" if "no" in lasting and not changes else "partly"

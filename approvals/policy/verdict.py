"""The engine's data types: tiers, effects, one entry for each sub-command, and the verdict."""

from dataclasses import dataclass, field

TIERS = ("low", "medium", "high", "critical", "forbidden")
ALLOWING = ("medium", "low")
RESTRICTING = ("forbidden", "critical", "high")
UNDO = ("yes", "partly", "unknown", "no")  # from best to worst


class PolicyError(ValueError):
    """A policy or rule that cannot be stored; the message is a sentence for the form."""


def reason(tier, says):
    """Return the sentence that says why a call needs approval, is forbidden or allowed."""
    lead = {"forbidden": "Forbidden", "critical": "Needs approval", "high": "Needs approval"}.get(tier, "Auto-approved")
    return f"{lead}: {says}."


def worst(tiers):
    """Return the strictest of some tiers; low if there are none."""
    return max(tiers, key=TIERS.index, default="low")


@dataclass(frozen=True)
class Effect:
    """One thing that a sub-command does.

    `kind`: read, write, delete, run, start, network, push, remote, install, local, harmful, unknown, unclear, hidden.
    `says` completes "part 1 …". `spelled`: words that a rule must contain literally to cover this effect. `tier` is
    that of the first mode. `undo` is one of UNDO. `title` is the headline, if it cannot be derived from `says`.
    `target` is a path, or the host of a network or remote effect.
    """

    kind: str
    says: str
    tier: str
    undo: str = "yes"
    target: str = ""
    spelled: tuple = ()
    place: object = None
    more: tuple = ()  # further targets
    title: str = ""
    source: str = ""  # the host that the script it runs comes from


@dataclass
class SubCommand:
    """One simple command as it will run, for the card and its evidence."""

    text: str
    line: int
    words: list
    tier: str = "high"
    undo: str = "partly"
    what: str = "run"
    targets: list = field(default_factory=list)
    names: list = field(default_factory=list)  # those targets that concern `what`: hosts, packages, files
    reason: str = ""
    rule: str | None = None
    cwd: str = ""  # the folder it runs in; "" if not certain
    headline: str = ""
    runs: bool = False  # it starts something, and files decide what that does (see run_files)
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
            "names": self.names,
            "reason": self.reason,
            "rule": self.rule,
            "cwd": self.cwd,
            "runs": self.runs,
        }


@dataclass
class Verdict:
    """The policy's answer for one action; `commands` is a list of dicts (see SubCommand)."""

    tier: str
    reasons: list
    rule: str | None = None
    undo: str = "unknown"
    title: str = ""
    commands: list = field(default_factory=list)


def undo_of(effects):
    """Return whether a snapshot of the workspace undoes the worst of these effects: one of UNDO."""
    return max((effect.undo for effect in effects), key=UNDO.index, default="yes")

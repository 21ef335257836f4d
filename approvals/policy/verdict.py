"""The engine's data types: tiers, effects, one entry for each sub-command, and the verdict."""

from dataclasses import dataclass, field

from .shell_words import OPAQUE

TIERS = ("low", "medium", "high", "critical", "forbidden")
ALLOWING = ("medium", "low")
RESTRICTING = ("forbidden", "critical", "high")
# From best to worst. "outside": a call that is known takes it back where it went, which no snapshot does.
UNDO = ("yes", "partly", "outside", "unknown", "no")


class PolicyError(ValueError):
    """A policy or rule that cannot be stored; the message is a sentence for the form."""


def reason(tier, says):
    """Return the sentence that says why a call needs approval, is forbidden or allowed."""
    lead = {"forbidden": "Forbidden", "critical": "Needs approval", "high": "Needs approval"}.get(tier, "Auto-approved")
    return f"{lead}: {says}."


def shown(text):
    """Return a text for people, with dots for what is not known before a command runs."""
    return text.replace(OPAQUE, "…")


def worst(tiers):
    """Return the strictest of some tiers; low if there are none."""
    return max(tiers, key=TIERS.index, default="low")


@dataclass(frozen=True)
class Effect:
    """One thing that a sub-command does.

    `kind`: read, write, delete, run, start, network, push, remote, install, local, harmful, unknown, unclear, hidden.
    `says` completes "part 1 …". `spelled`: words that a rule must contain literally to cover this effect. `tier` is
    that of the first mode. `undo` is one of UNDO. `title` is the headline, if it cannot be derived from `says`.
    `target` is a path, or the host of a network or remote effect. `held` is "runs" or "asks" if an envelope makes it
    run or does not, "" if its kind decides (see envelopes). `at_code_host`: only reads there, by a closed grammar.
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
    held: str = ""
    at_code_host: bool = False
    hosts: tuple = ()  # those of the registry that packages come from
    loses: bool = False  # it deletes or changes data that other programs or people use
    reaches: tuple = ()  # host:port of each server that the text names
    moves: bool = False  # a write that takes the name away
    listed: bool = False  # a read of a folder's names alone
    # What its approval opens, absolute paths; None: its place. `FOLDER/**` stands for what is below a folder,
    # `FOLDER/**/NAME` for what of that has a name (see opens).
    opens: tuple = None

    def __post_init__(self):
        for name in ("says", "title"):
            object.__setattr__(self, name, shown(getattr(self, name)))


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
    kind: str = ""  # of the effect that decides; "" if a rule does, or nothing happens
    rule: str | None = None
    cwd: str = ""  # the folder it runs in; "" if not certain
    headline: str = ""
    runs: bool = False  # it starts something, and files decide what that does (see run_files)
    effects: list = field(default_factory=list)
    envelope: dict | None = None  # what it gets if it runs and the call can be held
    code_host_read: bool = False
    brings: dict = field(default_factory=dict)  # {path: host} of files from the network that it writes
    opens: dict = field(default_factory=dict)  # what an approval opens beyond the medium envelope (see opens)
    acts_at: dict = field(default_factory=dict)  # {target of the policy: "certain" or "possible"}
    reach: dict = field(default_factory=dict)  # Reach.as_dict and {effects: kinds}, if the context asks for it

    def as_dict(self):
        more = {"brings": self.brings} if self.brings else {}
        if any(effect.loses for effect in self.effects):
            more["loses"] = True
        if self.acts_at:
            more["acts_at"] = self.acts_at
        if self.reach:
            more["reach"] = self.reach
        return more | {
            "text": self.text,
            "line": self.line,
            "words": self.words,
            "tier": self.tier,
            "undo": self.undo,
            "what": self.what,
            "targets": self.targets,
            "names": self.names,
            "reason": self.reason,
            "kind": self.kind,
            "rule": self.rule,
            "cwd": self.cwd,
            "runs": self.runs,
            "code_host_read": self.code_host_read,
            "opens": self.opens,
        }


@dataclass
class Verdict:
    """The policy's answer for one action; `commands` is a list of dicts (see SubCommand).

    `envelope` is what the kernel lets the call do (see envelopes), None if the call asks, is not held, or is allowed by
    a rule although it leaves every envelope. `code_host_read`: a part of it reads at the code host, outside of it.
    `by_file`: a policy file of the repository makes it stricter (see repository_file).
    """

    tier: str
    reasons: list
    rule: str | None = None
    undo: str = "unknown"
    title: str = ""
    commands: list = field(default_factory=list)
    envelope: dict | None = None
    code_host_read: bool = False
    by_file: bool = False

    @property
    def targets(self):
        """Return {target of the policy: "certain" or "possible"} of all parts together: certain only if each one is."""
        parts = [entry["acts_at"] for entry in self.commands if entry.get("acts_at")]
        names = dict.fromkeys(name for part in parts for name in part)
        sure = {name for name in names if all(part.get(name) == "certain" for part in parts)}
        return {name: "certain" if name in sure else "possible" for name in names}


def undo_of(effects):
    """Return whether a snapshot of the workspace undoes the worst of these effects: one of UNDO."""
    return max((effect.undo for effect in effects), key=UNDO.index, default="yes")

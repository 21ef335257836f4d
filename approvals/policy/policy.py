"""Policies: rules listed by tier plus a mode, parsed from TOML, and refused if their own tests fail."""

import tomllib
from dataclasses import dataclass, field, replace

from .blocks import in_force, read_blocks, read_floor
from .escalation import read_escalations
from .people import read_approvals, stricter
from .rules import CLASSES, parse_rule, too_broad
from .targets import read_targets
from .trust import Trust, read_trust
from .verdict import ALLOWING, TIERS, PolicyError

MODES = {
    "irreversible": "Ask before anything irreversible",
    "commands": "Ask before anything irreversible and before commands",
    "everything": "Ask before everything",
}
KEYS = ("mode", "rehearse", "approvals", "escalate", "trust", "targets", "when", "floor", "tests")
MAX_POLICY = 200_000
MAX_RULES = 1_000
REHEARSABLE = ("high", "critical")  # tiers whose calls a policy can have tried on a copy first


@dataclass
class Policy:
    """A mode and the rules of each tier. `ignored` is {rule text: why} for rules that grant nothing.

    `targets` is {name: Target}, and `blocks` are the rules with conditions, those of the floor among them.
    `rehearse`: the tiers whose commands are tried on a copy of the files as soon as they wait for a person.
    `approvals` is {tier: Takes}, the people who approve, and `escalate` {tier: Escalation}. `has_mode`: the text says
    its mode.
    """

    mode: str = "irreversible"
    rules: dict = field(default_factory=dict)
    tests: list = field(default_factory=list)
    text: str = ""
    ignored: dict = field(default_factory=dict)
    trust: Trust = field(default_factory=Trust)
    rehearse: tuple = ()
    approvals: dict = field(default_factory=dict)
    targets: dict = field(default_factory=dict)
    blocks: tuple = ()
    has_mode: bool = True
    escalate: dict = field(default_factory=dict)

    @classmethod
    def of_rules(cls, texts):
        """Return a policy that allows only what these rules cover; invalid ones go to `ignored`."""
        policy = cls(mode="everything", rules={"low": []})
        for text in texts:
            try:
                rule = parse_rule(text)
                reason = too_broad(rule)
            except PolicyError as error:
                policy.ignored[str(text)] = str(error)
                continue
            if reason:
                policy.ignored[rule.text] = reason
            else:
                policy.rules["low"].append(rule)
        return policy

    def tier(self, name):
        return self.rules.get(name, [])

    def above(self, floor):
        """Return this policy with what the other one forbids, its floor and its approvals, which nothing loosens."""
        forbidden = list(dict.fromkeys([*self.tier("forbidden"), *floor.tier("forbidden")]))
        more = (block.tightening() if block.is_floor else block.forbidding() for block in floor.blocks)
        rules, approvals = self.rules | {"forbidden": forbidden}, stricter(self.approvals, floor.approvals)
        return replace(self, rules=rules, approvals=approvals, blocks=(*self.blocks, *more))

    def seen(self, facts):
        """Return this policy as it holds for one call: with the rules and the mode of the blocks that apply to it."""
        if not self.blocks:
            return self
        mode, rules = in_force(self, facts)
        return replace(self, mode=mode, rules=rules, blocks=())


def default_policy(mode="irreversible"):
    """Return the text of a new team's policy in one of the three modes."""
    if mode not in MODES:
        raise PolicyError(f"Unknown mode {mode!r}; choose one of {', '.join(MODES)}.")
    return _TEXTS["head"].format(mode=mode, words=MODES[mode]) + _TEXTS["lists"] + _TEXTS[mode]


def load_policy(text):
    """Parse a policy and run its tests; PolicyError says in a sentence what is wrong."""
    from .classify import run_test  # local: classify imports Policy

    policy = read_policy(text)
    for number, test in enumerate(policy.tests, 1):
        failure = run_test(policy, test)
        if failure:
            raise PolicyError(f"Test {number} of the policy fails: {failure}")
    return policy


def read_policy(text):
    """Parse a policy whose tests have passed before; PolicyError says in a sentence what is wrong."""
    if not isinstance(text, str):
        raise PolicyError("A policy must be text.")
    if len(text) > MAX_POLICY:
        raise PolicyError(f"A policy is at most {MAX_POLICY:,} characters long.")
    if text.startswith("\ufeff"):
        raise PolicyError("The policy begins with a byte order mark, which no editor shows. Save it without.")
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise PolicyError(f"The policy is not valid TOML: {_in_words(error, text)}.") from None
    strange = sorted(set(data) - {*KEYS, *TIERS})
    if strange:
        raise PolicyError(f"Unknown key {strange[0]!r}; a policy has {', '.join((*TIERS, *KEYS))}.")
    mode = data.get("mode", "irreversible")
    if mode not in MODES:
        raise PolicyError(f"Unknown mode {mode!r}; choose one of {', '.join(MODES)}.")
    rules, tests = _rules(data), _tests(data.get("tests", []))
    trust, rehearse = read_trust(data.get("trust", {})), _rehearse(data.get("rehearse", []))
    targets = read_targets(data.get("targets", {}))
    blocks = read_blocks(data.get("when", []), targets) + (
        read_floor(data["floor"], targets) if "floor" in data else ()
    )
    approvals = read_approvals(data.get("approvals", {}))
    more = {"trust": trust, "rehearse": rehearse, "approvals": approvals, "targets": targets, "blocks": blocks}
    more |= {"has_mode": "mode" in data, "escalate": read_escalations(data.get("escalate", {}))}
    found = Policy(mode=mode, rules=rules, tests=tests, text=text, **more)
    if (
        sum(map(len, rules.values())) + sum(len(listed) for block in blocks for listed in block.rules.values())
        > MAX_RULES
    ):
        raise PolicyError(f"A policy can have at most {MAX_RULES:,} rules.")
    return found


def targets_of(text):
    """Return {target: what belongs to it} as a policy's text has it, which has been read before."""
    return tomllib.loads(text).get("targets", {})


def _rehearse(tiers):
    tiers = [tiers] if isinstance(tiers, str) else tiers
    if not isinstance(tiers, list) or any(tier not in REHEARSABLE for tier in tiers):
        raise PolicyError(f"rehearse names one or both of the tiers {' and '.join(REHEARSABLE)}.")
    return tuple(tiers)


def _in_words(error, text):
    """Return what tomllib says of a text, with the line also where it ran to the end."""
    last = text.rstrip().count("\n") + 1
    says = str(error).replace("Cannot overwrite a value", "A key stands twice")
    return says.replace("(at end of document)", f"(at line {last}, the last)")


def _rules(data):
    rules = {}
    for tier in TIERS:
        texts = data.get(tier, [])
        if not isinstance(texts, list):
            raise PolicyError(f"{tier} must be a list of rules.")
        rules[tier] = [parse_rule(text) for text in texts]
        if tier in ALLOWING:
            for rule in rules[tier]:
                reason = too_broad(rule)
                if reason:
                    raise PolicyError(reason)
        if named := next((rule for rule in rules[tier] if rule.tool in CLASSES), None):
            raise PolicyError(f"{named.text} in {tier} belongs into a block [[when]], or into the table floor.")
    return rules


def _tests(tests):
    if not isinstance(tests, list):
        raise PolicyError("tests must be written as [[tests]] entries.")
    for number, test in enumerate(tests, 1):
        good = isinstance(test, dict) and isinstance(test.get("tool"), str) and isinstance(test.get("input"), dict)
        if not good or test.get("tier") not in TIERS:
            raise PolicyError(f"Test {number} needs tool, input and tier (one of {', '.join(TIERS)}).")
    return tests


_TEXTS = {
    "head": """\
# {words}.
# Lists by tier; deny beats ask beats allow. What no rule names, the mode decides.
mode = "{mode}"

""",
    "lists": """\
forbidden = [
]
critical = [
]
high = [
]
medium = [
]
low = [
]

[[tests]]
tool = "Bash"
input = {command = "rm -rf /"}
tier = "forbidden"

[[tests]]
tool = "Bash"
input = {command = "git push --force origin main"}
tier = "critical"

[[tests]]
tool = "Bash"
input = {command = "curl -s https://example.com"}
tier = "high"
""",
    "irreversible": """
[[tests]]
tool = "Read"
input = {file_path = "README.md"}
tier = "low"

[[tests]]
tool = "Write"
input = {file_path = "src/app.py", content = "x"}
tier = "medium"

[[tests]]
tool = "Bash"
input = {command = "pytest -q"}
tier = "medium"
""",
    "commands": """
[[tests]]
tool = "Bash"
input = {command = "pytest -q"}
tier = "high"

[[tests]]
tool = "Write"
input = {file_path = "src/app.py", content = "x"}
tier = "medium"
""",
    "everything": """
[[tests]]
tool = "Read"
input = {file_path = "README.md"}
tier = "high"
""",
}

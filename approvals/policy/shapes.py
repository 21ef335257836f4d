"""Representative calls for two policies: one for each class of calls that a difference between them can be about.

A policy decides by its mode, its rules, what it trusts, and conditions. So the cases are the calls that each rule of
either policy names, also with other words in its wildcards; calls of all kinds that the modes differ about; calls at
each target, at another place and at none; what either trusts; and all this for each agent, environment, label and hour
that a condition of either tells apart.
"""

import itertools
import shlex
from datetime import UTC, datetime, timedelta

from .conditions import ISOLATION, NAMED, UNDONE, Around, Duty, Facts, Hours, Texts, Undone
from .rules import CLASSES, FILE_READERS, FILE_WRITERS, WILD
from .samples import AT_TARGETS, OF_ALL_KINDS, TOOLS_AT_TARGETS
from .verdict import TIERS

FILLINGS = ([], ["x"], ["src/app.py"], ["test"], ["--force"], ["origin", "topic"], ["-f", "x.yml"], ["--verbose"])
FILLED = ("x", "2", "src/app")  # what stands for a wildcard within a name
WEEK = datetime(2026, 11, 30, tzinfo=UTC)  # a Monday
MAX_AROUND = 24
MAX_RULES = 400


def cases(before, after):
    """Return [shape, tool, arguments, context] of each case for two policies, without repetitions."""
    policies = (before, after)
    calls = {}
    for shape, tool, arguments in itertools.chain(
        _of_rules(policies), _of_trust(policies), _at_targets(policies), _of_all_kinds()
    ):
        calls.setdefault((tool, repr(sorted(arguments.items()))), (shape, tool, arguments))
    around = arounds(policies)
    held = [{}, {"held": True, "hosts": []}]
    found = []
    for (shape, tool, arguments), context in itertools.product(calls.values(), around):
        for more in held if tool == "Bash" else held[:1]:
            found.append([shape, tool, arguments, context | more | _confirmed(policies)])
    return found


def _confirmed(policies):
    """Return a context in which the programs that either policy trusts are the trusted ones."""
    programs = {each.name: each for policy in policies for each in policy.trust.programs}
    found = {name: {"path": each.path, "sha256": each.sha256} for name, each in programs.items()}
    return {"programs": found} if found else {}


# Rules


def _rules_of(policy):
    yield from (rule for tier in TIERS for rule in policy.tier(tier))
    yield from (rule for block in policy.blocks for tier in TIERS for rule in block.rules.get(tier, ()))


def _of_rules(policies):
    listed = {rule.written: rule for policy in policies for rule in _rules_of(policy) if rule.tool not in CLASSES}
    for written, rule in list(listed.items())[:MAX_RULES]:
        for tool, arguments in _calls_of(rule):
            yield written, tool, arguments


def _calls_of(rule):
    """Yield (tool, arguments) of calls that a rule matches."""
    if rule.tool == "Bash":
        yield from (("Bash", {"command": command}) for command in _commands(rule))
    elif rule.tool in FILE_WRITERS + FILE_READERS:
        for path in _filled_texts(_path_of(rule.spec)):
            yield rule.tool, {"file_path": path} | ({"content": "x"} if rule.tool in FILE_WRITERS else {})
    elif rule.tool == "WebFetch":
        for host in _filled_texts((rule.spec or "domain:example.com").removeprefix("domain:")):
            yield "WebFetch", {"url": f"https://{host.replace('/', '-')}/"}
    elif rule.tool.startswith("mcp__"):
        yield from _tools_of(rule)
    else:
        yield rule.tool.replace("*", "x"), {}


def _commands(rule):
    if rule.spec is None or not rule.tokens:
        return ["make x"]
    if rule.exact:
        return [rule.spec]
    return [shlex.join(words) for words in (_filled(rule.tokens, filling) for filling in FILLINGS) if words]


def _filled(tokens, filling):
    words = []
    for token in tokens:
        words += filling if token == WILD else [token.replace(WILD, filling[0] if filling else "x")]
    return words


def _path_of(spec):
    spec = (spec or "src/x").strip()
    return "/" + spec[2:] if spec.startswith("//") else spec


def _filled_texts(text):
    return list(dict.fromkeys(text.replace("**", each).replace("*", each) for each in FILLED))


def _tools_of(rule):
    rest = rule.tool.removeprefix("mcp__")
    rest = rest if "__" in rest else f"{rest}__x"
    key, colon, pattern = (rule.spec or "").partition(":")
    for tool in _filled_texts(f"mcp__{rest}")[:2]:
        yield tool, ({key: pattern.replace("*", "x")} if colon else {})
        if not colon:
            yield tool, {"text": "x"}


# Trust, kinds and targets


def _of_trust(policies):
    for policy in policies:
        for program in policy.trust.programs:
            yield f"the trusted program {program.name}", "Bash", {"command": f"{program.name} x"}
        for place in policy.trust.places:
            yield f"reads in the trusted place {place}", "Read", {"file_path": f"{place}/x"}
            yield f"writes in the trusted place {place}", "Write", {"file_path": f"{place}/x", "content": "x"}


def _of_all_kinds():
    yield from OF_ALL_KINDS


def _at_targets(policies):
    """Yield writes and reads at each target, by each kind of name that it has, at another place, and at none."""
    names = {"": {}}
    for policy in policies:
        for target in policy.targets.values():
            for kind, values in target.examples().items():
                names.setdefault(target.name, {}).setdefault(kind, []).extend(values[:3])
            names.setdefault(target.name, {}).setdefault("env", [target.name])
    if len(names) == 1:
        return
    for name, kinds in names.items():
        for kind, does, template in AT_TARGETS:
            for value in kinds.get(kind, []) if name else ["elsewhere-1"]:
                shape = f"{does}, at {name}" if name else f"{does}, at no target"
                yield shape, "Bash", {"command": template.format(name=value)}
        for does, tool, argument in TOOLS_AT_TARGETS:
            for value in kinds.get("env", []) if name else ["elsewhere"]:
                yield (f"{does}, at {name}" if name else f"{does}, at no target"), tool, {argument: value}
    for _, does, template in AT_TARGETS:
        if bare := _without_name(template):
            yield f"{does}, without a name", "Bash", {"command": bare}


def _without_name(template):
    words = template.split(" ")
    kept = []
    for word in words:
        if "{name}" not in word:
            kept.append(word)
        elif kept and kept[-1].startswith("-") and "=" not in word:
            kept.pop()
    return " ".join(kept) if len(kept) < len(words) and "://" not in template else ""


# Who asks, from where and when


def arounds(policies):
    """Return contexts that the conditions of the policies tell apart; two that none does are one.

    All that blocks of one policy alone ask about are combined; what blocks of both ask about is added one by one.
    """
    own = [{_identity(block) for block in policy.blocks} for policy in policies]
    blocks = [block for policy in policies for block in policy.blocks]
    tests = [test for block in blocks for test in block.conditions.values() if _is_around(test)]
    differing = [block for block in blocks if _identity(block) in own[0] ^ own[1]]
    varied = [test for block in differing for test in block.conditions.values()]
    contexts = [dict(zip(NAMES, chosen, strict=True)) for chosen in itertools.product(*_choices(varied))]
    base = contexts[-1]
    for name, choices in zip(NAMES, _choices(tests), strict=True):
        contexts += [base | {name: value} for value in choices]
    found = {}
    for context in contexts:
        met = tuple(test.holds(Facts(Around.of(context))) for test in tests)
        found.setdefault(met, context)
    return list(found.values())[:MAX_AROUND]


NAMES = ("agent", "environment", "isolation", "labels", "at", "on_duty", "undo")


def _identity(block):
    conditions = tuple((key, test.texts) for key, test in block.conditions.items())
    rules = tuple((tier, tuple(rule.written for rule in listed)) for tier, listed in block.rules.items())
    return conditions, rules, block.mode, block.is_floor


def _choices(tests):
    """Return for each of NAMES the values that these conditions tell apart, one that meets none of them last."""
    return [
        [*_values(tests, "agent"), "another agent"],
        [*_values(tests, "environment"), "another environment"],
        _levels(tests),
        [*({key: value} for key, value in _pairs(tests)), {}],
        _moments(tests),
        [True, False] if any(isinstance(test, Duty) for test in tests) else [None],
        [*UNDONE] if any(isinstance(test, Undone) for test in tests) else [None],
    ]


def _is_around(test):
    return isinstance(test, Hours | Duty | Undone) or (type(test) is Texts and test.key in (*NAMED, "label"))


def _levels(tests):
    """Return the levels of isolation that these conditions tell apart, one for each way in which they hold."""
    asked = [test for test in tests if type(test) is Texts and test.key == "isolation"]
    found = {tuple(test.fits(level) for test in asked): level for level in reversed(ISOLATION)}
    return [found[met] for met in sorted(found, key=any, reverse=True)]


def _values(tests, key):
    texts = (text.removeprefix("!") for test in tests if type(test) is Texts and test.key == key for text in test.texts)
    return list(dict.fromkeys(text.replace("*", "x") for text in texts))


def _pairs(tests):
    return [text.split(":", 1) for text in _values(tests, "label")]


def _moments(tests):
    """Return times within and outside of each span of hours."""
    spans = [span for test in tests if isinstance(test, Hours) for span in test.spans]
    if not spans:
        return [(WEEK + timedelta(hours=12)).isoformat()]
    minutes = sorted(
        {(edge + more) % 1440 for _, start, end, _, _ in spans for edge in (start, end) for more in (-1, 1)}
    )
    return [(WEEK + timedelta(days=day, minutes=minute)).isoformat() for day in (0, 5, 6) for minute in minutes[:8]]

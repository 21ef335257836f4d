"""Rules of agents' own settings as rules of a policy and back: Claude Code's permissions, and Codex's prefix rules.

Each line is taken or left out with the reason; none is taken as more than it says.
"""

import ast
import itertools
import json
import shlex
from dataclasses import dataclass, field

from .policy import Policy
from .rules import WILD, parse_rule, too_broad
from .unmatched import never_matching
from .verdict import ALLOWING, TIERS, PolicyError

AGENTS = ("claude", "codex")
OF_CLAUDE = {"allow": "low", "ask": "high", "deny": "forbidden"}
OF_CODEX = {"allow": "low", "prompt": "high", "forbidden": "forbidden"}
BACK = {"low": 0, "medium": 0, "high": 1, "critical": 1, "forbidden": 2}
MAX_PRODUCTS = 200  # commands that the alternatives of one prefix rule make


@dataclass
class Taken:
    """What was read or written: [tier, rule] of what is taken, [line, why] of what is left out."""

    taken: list = field(default_factory=list)
    left_out: list = field(default_factory=list)


@dataclass(frozen=True)
class Line:
    """One line of an agent's rules: the list and rule of a policy that it becomes, or why it becomes none."""

    line: str
    tier: str = ""
    rule: str = ""
    why: str = ""


def lines_of(agent, text):
    """Return a Line for each line of `.claude/settings.json` or of a `.rules` file. PolicyError: it can't be read."""
    found = []
    for line, tier, rule in _of_claude(text) if agent == "claude" else _of_codex(text):
        why = rule if tier is None else _refused(tier, rule)
        found.append(Line(line, why=why) if why else Line(line, tier, rule))
    return found


def read_rules(agent, text):
    """Return what such a text is as rules of a policy, as Taken. PolicyError."""
    found = Taken()
    for line in lines_of(agent, text):
        if line.why:
            found.left_out.append([line.line, line.why])
        elif [line.tier, line.rule] not in found.taken:
            found.taken.append([line.tier, line.rule])
    return found


def _refused(tier, text):
    """Return why a rule cannot stand in a list of a policy, or None."""
    try:
        rule = parse_rule(text)
    except PolicyError as error:
        return str(error)
    if tier in ALLOWING and (reason := too_broad(rule)):
        return reason
    return next(iter(never_matching(Policy(rules={tier: [rule]}))), None)


def _of_claude(text):
    """Yield (line, tier, rule) of the permissions in Claude Code's settings."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"The settings are not valid JSON: {error}.") from None
    permissions = data.get("permissions") if isinstance(data, dict) else None
    if not isinstance(permissions, dict):
        raise PolicyError("The settings have no permissions.")
    for key, tier in OF_CLAUDE.items():
        listed = permissions.get(key, [])
        for rule in listed if isinstance(listed, list) else [listed]:
            yield f"{key}: {rule}", tier, rule
    for key in sorted(set(permissions) - set(OF_CLAUDE)):
        yield f"{key}: {json.dumps(permissions[key])[:200]}", None, "a policy has no setting for it"


def _of_codex(text):
    """Yield (line, tier, rule) of the prefix rules in a `.rules` file; nothing of it is run."""
    try:
        calls = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise PolicyError(f"The rules cannot be read: {error}.") from None
    for node in calls:
        line = " ".join((ast.get_source_segment(text, node) or "").split())[:300]
        call = node.value if isinstance(node, ast.Expr) else None
        if not isinstance(call, ast.Call) or getattr(call.func, "id", "") != "prefix_rule":
            yield line, None, "only prefix_rule is a rule of a policy"
            continue
        try:
            given = {each.arg: ast.literal_eval(each.value) for each in call.keywords}
        except (ValueError, TypeError):
            yield line, None, "its arguments are no plain values"
            continue
        yield from _of_prefix(line, given.get("pattern"), given.get("decision", "allow"))


def _of_prefix(line, pattern, decision):
    parts = [part if isinstance(part, list) else [part] for part in pattern] if isinstance(pattern, list) else []
    plain = parts and all(isinstance(word, str) and word and "*" not in word for part in parts for word in part)
    if not plain or decision not in OF_CODEX:
        yield line, None, "its pattern or its decision is none that a policy knows"
        return
    for words in itertools.islice(itertools.product(*parts), MAX_PRODUCTS):
        yield line, OF_CODEX[decision], f"Bash({shlex.join(words)} *)"


def written(agent, policy):
    """Return (text, Taken) of a policy as the agent's own settings; `left_out` has what these cannot say."""
    found = Taken()
    for tier in reversed(TIERS):
        for rule in policy.tier(tier):
            why = None if agent == "claude" else _no_prefix(rule)
            if why:
                found.left_out.append([f"{rule.text} in {tier}", why])
            else:
                found.taken.append([tier, rule.text])
    for block in policy.blocks:
        for tier, rules in block.rules.items():
            says = "its conditions cannot be written there"
            found.left_out += [[f"{rule.text} in {tier}", says] for rule in rules]
    return (_as_claude if agent == "claude" else _as_codex)(found.taken), found


def _as_claude(taken):
    lists = {key: [rule for tier, rule in taken if BACK[tier] == at] for at, key in enumerate(OF_CLAUDE)}
    return json.dumps({"permissions": lists}, indent=2, ensure_ascii=False) + "\n"


def _no_prefix(rule):
    """Return why a rule is no prefix of a command, or None."""
    if rule.tool != "Bash" or rule.spec is None:
        return "Codex has rules for commands alone"
    words = rule.tokens
    if not words or any(WILD in word for word in words[:-1]) or (WILD in words[-1] and words[-1] != WILD):
        return "its wildcard is not at the end"
    if words[-1] != WILD:
        return "Codex would let it run with more words behind it"
    return None


def _as_codex(taken):
    lines = []
    for tier, text in taken:
        words = list(parse_rule(text).tokens[:-1])
        decision = list(OF_CODEX)[BACK[tier]]
        lines.append(f"prefix_rule(pattern={json.dumps(words, ensure_ascii=False)}, decision={json.dumps(decision)})\n")
    return "".join(lines)

"""`python -m approvals.policy serve`: judge calls for a parent process, which may kill this one if it takes too long.

Each input line is a JSON object, each output line its answer. A policy is sent once and named by its key afterwards.
"""

import dataclasses
import time

from dashboard.workers.loop import answer_lines

from . import needles, repository_file
from .classify import classify
from .policy import Policy, load_policy, read_policy, targets_of
from .shapes import cases
from .undecided import warnings_of
from .unmatched import never_matching, shadowed_by_earlier
from .verdict import PolicyError


def serve(source, sink):
    """Answer lines until the other end closes, or no request came for a while (see dashboard.workers.loop)."""
    policies = {}
    answer_lines(source, sink, lambda asked: _answer(asked, policies))


def _answer(asked, policies):
    if "check" in asked:
        return check(asked["check"], asked.get("below", ""))
    for key, text in asked.get("texts", {}).items():
        policies[key] = read_policy(text)
    if "calls" in asked:
        return compare(asked, policies)
    if "change" in asked:
        return needles.of_change(*(_side(policies, *side) for side in asked["change"]))
    if "cases" in asked:
        return {"cases": cases(*(_side(policies, *side) for side in asked["cases"]))}
    if "rules" in asked:
        judging = [Policy.of_rules(asked["rules"])]
    else:
        judging = _judging(policies, asked["policy"], asked.get("floor"), asked.get("file"), asked.get("adopted"))
    verdicts = [classify(asked["tool"], asked["arguments"], policy=each, **asked["world"]) for each in judging]
    return dataclasses.asdict(repository_file.strictest(verdicts))


def _side(policies, key, floor, file=None):
    """Return the policy of one side of a comparison; `file` is one that is adopted."""
    return _judging(policies, key, floor, file, adopted=True)[0]


def _judging(policies, key, floor, file, adopted):
    policy = policies[key].above(policies[floor]) if floor else policies[key]
    return repository_file.judging(policy, policies[file], adopted=adopted) if file else [policy]


def compare(asked, policies):
    """Judge calls by two policies until `seconds` have passed; return {verdicts: [[before, after]]} of the first ones.

    `before` and `after` are [policy, floor], or these and an adopted policy file; each a call's verdict [tier, rule].
    """
    until = time.monotonic() + asked["seconds"]
    before, after = (_side(policies, *asked[name]) for name in ("before", "after"))
    verdicts = []
    for tool, arguments, world in asked["calls"]:
        if time.monotonic() > until:
            break
        reading = {}  # both policies judge the same effects
        found = (classify(tool, arguments, policy=policy, reading=reading, **world) for policy in (before, after))
        verdicts.append([[verdict.tier, verdict.rule] for verdict in found])
    return {"verdicts": verdicts}


def check(text, below=""):
    """Return what is wrong with a policy, or its contents and which of its rules can never match.

    `below`: the text of the team's policy if this one is an environment's own.
    """
    try:
        policy = load_policy(text)
    except PolicyError as error:
        return {"problem": str(error)}
    rules = {tier: [rule.text for rule in listed] for tier, listed in policy.rules.items()}
    blocks = [_told_block(block) for block in policy.blocks]
    trust = dataclasses.asdict(policy.trust)
    never = never_matching(policy)
    facts = {"mode": policy.mode, "rules": rules, "tests": len(policy.tests), "never": never, "trust": trust}
    shadowed = shadowed_by_earlier(policy, read_policy(below) if below else None)
    facts |= {"blocks": blocks, "targets": targets_of(policy.text), "warnings": warnings_of(policy)}
    facts |= {"approvals": {tier: dataclasses.asdict(takes) for tier, takes in policy.approvals.items()}}
    facts |= {"escalate": {tier: dataclasses.asdict(each) for tier, each in policy.escalate.items()}}
    return facts | {"rehearse": list(policy.rehearse), "shadowed": shadowed}


def _told_block(block):
    """Return a block as JSON: `rules` by tier as they are written, `labels` as verdicts name them."""
    conditions = {key: list(test.texts) for key, test in block.conditions.items()}
    rules = {tier: [rule.written for rule in listed] for tier, listed in block.rules.items() if listed}
    labels = {tier: [rule.text for rule in listed] for tier, listed in block.rules.items() if listed}
    return {"conditions": conditions, "rules": rules, "labels": labels, "mode": block.mode, "is_floor": block.is_floor}

"""`python -m approvals.policy serve`: judge calls for a parent process, which may kill this one if it takes too long.

Each input line is a JSON object, each output line its answer. A policy is sent once and named by its key afterwards.
"""

import dataclasses

from dashboard.workers.loop import answer_lines

from .classify import classify
from .policy import Policy, load_policy, read_policy
from .unmatched import never_matching
from .verdict import PolicyError


def serve(source, sink):
    """Answer lines until the other end closes, or no request came for a while (see dashboard.workers.loop)."""
    policies = {}
    answer_lines(source, sink, lambda asked: _answer(asked, policies))


def _answer(asked, policies):
    if "check" in asked:
        return check(asked["check"])
    for key, text in asked.get("texts", {}).items():
        policies[key] = read_policy(text)
    if "rules" in asked:
        policy = Policy.of_rules(asked["rules"])
    else:
        policy = policies[asked["policy"]]
        if asked.get("floor"):
            policy = policy.above(policies[asked["floor"]])
    verdict = classify(asked["tool"], asked["arguments"], policy=policy, **asked["world"])
    return dataclasses.asdict(verdict)


def check(text):
    """Return what is wrong with a policy, or its contents and which of its rules can never match."""
    try:
        policy = load_policy(text)
    except PolicyError as error:
        return {"problem": str(error)}
    rules = {tier: [rule.text for rule in listed] for tier, listed in policy.rules.items()}
    trust = dataclasses.asdict(policy.trust)
    never = never_matching(policy)
    told = {"mode": policy.mode, "rules": rules, "tests": len(policy.tests), "never": never, "trust": trust}
    return told | {"rehearse": list(policy.rehearse)}

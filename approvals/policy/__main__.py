"""`python -m approvals.policy decide`: read tool calls as JSON lines, write a verdict for each."""

import json
import sys

from . import Policy, PolicyError, classify, default_policy, load_policy
from .people import LEAST, least
from .serve import serve

USAGE = "usage: python -m approvals.policy decide < calls.jsonl"


def main(arguments, source, sink):
    if arguments == ["serve"]:
        serve(source, sink)
        return 0
    if arguments != ["decide"]:
        print(USAGE, file=sys.stderr)
        return 2
    for line in source:
        if line.strip():
            sink.write(json.dumps(answer(line)).encode() + b"\n")
            sink.flush()
    return 0


def answer(line):
    """Return the answer to one line of input (bytes); an invalid line gets tier high and the reason."""
    try:
        call = json.loads(line, object_pairs_hook=_once_each)
        if not isinstance(call, dict):
            raise ValueError("a line must be a JSON object")
        policy = policy_of(call)
    except (ValueError, RecursionError) as error:
        return {"tier": "high", "reasons": [f"Needs approval: the line makes no sense: {error}."], "rule": None}
    context = call.get("context")
    verdict = classify(call.get("tool"), call.get("input"), policy=policy, context=context)
    return {
        "tier": verdict.tier,
        "reasons": verdict.reasons,
        "rule": verdict.rule,
        "undo": verdict.undo,
        "title": verdict.title,
        "envelope": verdict.envelope,
        "code_host_read": verdict.code_host_read,
        "targets": verdict.targets,
        "takes": least(policy.approvals, verdict.tier).as_dict if verdict.tier in LEAST else None,
    }


def _once_each(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key appears twice")
    return found


def policy_of(call):
    """Return the policy of one line: its own text, its rules alone, or a new team's default policy."""
    rules, text = call.get("allow_rules"), call.get("policy")
    if rules is not None and not isinstance(rules, list):
        raise PolicyError("allow_rules must be a list of rules")
    if text is not None:
        policy = load_policy(text)
        extra = Policy.of_rules(rules or [])
        policy.rules["low"] = [*policy.tier("low"), *extra.tier("low")]
        policy.ignored = extra.ignored
        return policy
    return Policy.of_rules(rules) if rules is not None else load_policy(default_policy())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], sys.stdin.buffer, sys.stdout.buffer))

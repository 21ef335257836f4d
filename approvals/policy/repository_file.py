"""A policy file of a repository and a team's policy: which policies judge a call, and the strictest of their answers.

What the file does not say, the team's policy says: its own mode, or else the team's mode and rules. Neither may ask for
less than the other, unless a lead adopted the file: then it judges by itself, above the floor of the team's policy.
"""

from dataclasses import replace

from .people import stricter
from .verdict import TIERS

PATH = ".handrail/policy.toml"  # in the workspace; agents can't write it by themselves, as the folder is protected


def judging(policy, file, *, adopted):
    """Return the policies that judge a call: all must allow it. The file's own comes last.

    What the file trusts counts for nothing, as that is about files outside the repository.
    """
    own = replace(file, trust=policy.trust) if file.has_mode else _joined(policy, file)
    return [own.above(policy)] if adopted else [policy, own]


def _joined(policy, file):
    """Return the policy with what the file says besides."""
    rules = {tier: [*policy.tier(tier), *file.tier(tier)] for tier in TIERS}
    more = {"targets": file.targets | policy.targets, "approvals": stricter(policy.approvals, file.approvals)}
    return replace(policy, rules=rules, blocks=(*policy.blocks, *file.blocks), **more)


def strictest(verdicts):
    """Return the first of the strictest verdicts; `by_file` if it is the last one's alone."""
    found = max(verdicts, key=lambda verdict: TIERS.index(verdict.tier))
    return replace(found, by_file=found is verdicts[-1] and len(verdicts) > 1)

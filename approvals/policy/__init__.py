"""Handrail's rule engine: classifies an agent's tool call as a tier with reasons. No Django here."""

from .classify import classify
from .policy import MODES, Policy, default_policy, load_policy, read_policy
from .rules import Rule, parse_rule, too_broad
from .verdict import TIERS, PolicyError, Verdict

__all__ = [
    "MODES",
    "TIERS",
    "Policy",
    "PolicyError",
    "Rule",
    "Verdict",
    "classify",
    "default_policy",
    "load_policy",
    "parse_rule",
    "read_policy",
    "too_broad",
]

"""Handrail's rule engine: what an agent asks to do goes in, a tier with its reasons comes out. No Django here."""

from .classify import classify
from .policy import MODES, Policy, default_policy, load_policy
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
    "too_broad",
]

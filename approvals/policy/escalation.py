"""A policy's table `escalate`: to whom a call of a tier is passed if nobody has decided it after some minutes."""

from dataclasses import dataclass

from .people import GROUP, LEAST, ROLES
from .verdict import PolicyError

MAX_MINUTES = 7 * 24 * 60


@dataclass(frozen=True)
class Escalation:
    """After so many minutes a call is passed to all of this role, or of one that may do more, or of this group."""

    minutes: int
    role: str = ""
    group: str = ""


def read_escalations(table) -> dict[str, Escalation]:
    """Return {tier: Escalation} of a policy's table. Raise PolicyError."""
    if not isinstance(table, dict) or not set(table) <= set(LEAST):
        raise PolicyError(f"escalate is a table of the tiers {' and '.join(LEAST)}.")
    return {tier: _escalation(tier, wanted) for tier, wanted in table.items()}


def _escalation(tier: str, wanted) -> Escalation:
    keys = set(wanted) if isinstance(wanted, dict) else set()
    if keys not in ({"minutes", "role"}, {"minutes", "group"}):
        raise PolicyError(
            f'escalate.{tier} says minutes and a role or a group: {tier} = {{minutes = 15, role = "lead"}}.'
        )
    minutes, role, group = wanted["minutes"], wanted.get("role", ""), wanted.get("group", "")
    if type(minutes) is not int or not 1 <= minutes <= MAX_MINUTES:
        raise PolicyError(f"escalate.{tier}.minutes is a number from 1 to {MAX_MINUTES:,}.")
    if "role" in keys and role not in ROLES:
        raise PolicyError(f"escalate.{tier}.role is one of {' and '.join(ROLES)}.")
    if "group" in keys and not (isinstance(group, str) and GROUP.fullmatch(group)):
        raise PolicyError(f"escalate.{tier}.group is the name of a group of the team's people.")
    return Escalation(minutes, role, group)

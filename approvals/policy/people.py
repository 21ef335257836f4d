"""A policy's table `approvals`: how many people approve a call of a tier, and of which role one of them is."""

from dataclasses import dataclass

from .verdict import PolicyError

LEAST = {"high": 1, "critical": 2}  # people who approve a call of these tiers, whatever a policy says
ROLES = ("lead", "admin")  # those that it can name, the one that may do more last
MAX_PEOPLE = 10


@dataclass(frozen=True)
class Takes:
    """So many people approve, at least one of them of this role or of one that may do more ("" for any role)."""

    people: int = 1
    role: str = ""

    @property
    def takes_one(self) -> bool:
        """Whether any one person who may decide is enough."""
        return self.people <= 1 and not self.role

    def with_more(self, other: "Takes") -> "Takes":
        """Return what meets both."""
        return Takes(max(self.people, other.people), max(self.role, other.role, key=("", *ROLES).index))


def read_approvals(table) -> dict[str, Takes]:
    """Return {tier: Takes} of a policy's table, which can only ask for more than LEAST. Raise PolicyError."""
    if not isinstance(table, dict) or not set(table) <= set(LEAST):
        raise PolicyError(f"approvals is a table of the tiers {' and '.join(LEAST)}.")
    return {tier: _takes(tier, wanted) for tier, wanted in table.items()}


def stricter(one: dict[str, Takes], other: dict[str, Takes]) -> dict[str, Takes]:
    """Return {tier: Takes} that meets both."""
    return {tier: one.get(tier, Takes()).with_more(other.get(tier, Takes())) for tier in {**one, **other}}


def _takes(tier: str, wanted) -> Takes:
    if not isinstance(wanted, dict) or not wanted or not set(wanted) <= {"people", "role"}:
        raise PolicyError(f'approvals.{tier} says people, role or both: {tier} = {{people = 2, role = "lead"}}.')
    people, role = wanted.get("people", LEAST[tier]), wanted.get("role", "")
    if type(people) is not int or not LEAST[tier] <= people <= MAX_PEOPLE:
        raise PolicyError(f"approvals.{tier}.people is a number from {LEAST[tier]} to {MAX_PEOPLE}.")
    if "role" in wanted and role not in ROLES:
        raise PolicyError(f"approvals.{tier}.role is one of {' and '.join(ROLES)}.")
    return Takes(people, role)

"""A policy's table `approvals`: how many people approve a call of a tier, and of which role and groups."""

import re
from dataclasses import dataclass

from .verdict import PolicyError

LEAST = {"high": 1, "critical": 2}  # people who approve a call of these tiers, whatever a policy says
ROLES = ("lead", "admin")  # those that it can name, the one that may do more last
KEYS = ("people", "role", "group")
GROUP = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
MAX_PEOPLE, MAX_GROUPS = 10, 10


@dataclass(frozen=True)
class Takes:
    """So many people approve, at least one of this role or of one that may do more ("" for any), and one of each group.

    One person can be the one of the role and of several groups.
    """

    people: int = 1
    role: str = ""
    groups: tuple = ()

    def __post_init__(self):
        object.__setattr__(self, "groups", tuple(self.groups))

    @property
    def takes_one(self) -> bool:
        """Whether any one person who may decide is enough."""
        return self.people <= 1 and not self.role and not self.groups

    @property
    def as_dict(self) -> dict:
        return {"people": self.people, "role": self.role, "groups": list(self.groups)}

    def __str__(self):
        named = [f"a person who is {self.role}"] if self.role else []
        named += [f"one of the group {name}" for name in self.groups]
        return ", ".join([f"{self.people} {'person' if self.people == 1 else 'people'}", *named])

    def meets(self, other: "Takes") -> bool:
        """Return whether these people are also those that the other one takes."""
        return self.with_more(other) == self

    def with_more(self, other: "Takes") -> "Takes":
        """Return what meets both."""
        role = max(self.role, other.role, key=("", *ROLES).index)
        return Takes(max(self.people, other.people), role, tuple(sorted({*self.groups, *other.groups})))


def read_approvals(table) -> dict[str, Takes]:
    """Return {tier: Takes} of a policy's table, which can only ask for more than LEAST. Raise PolicyError."""
    if not isinstance(table, dict) or not set(table) <= set(LEAST):
        raise PolicyError(f"approvals is a table of the tiers {' and '.join(LEAST)}.")
    return {tier: _takes(tier, wanted) for tier, wanted in table.items()}


def stricter(one: dict[str, Takes], other: dict[str, Takes]) -> dict[str, Takes]:
    """Return {tier: Takes} that meets both."""
    return {tier: one.get(tier, Takes()).with_more(other.get(tier, Takes())) for tier in {**one, **other}}


def least(approvals: dict[str, Takes], tier: str) -> Takes:
    """Return who approves a call of a tier by a policy's table, and by LEAST."""
    return approvals.get(tier, Takes()).with_more(Takes(LEAST.get(tier, 1)))


def _takes(tier: str, wanted) -> Takes:
    if not isinstance(wanted, dict) or not wanted or not set(wanted) <= set(KEYS):
        raise PolicyError(
            f'approvals.{tier} says people, role and group, or some of these: {tier} = {{people = 2, group = "dba"}}.'
        )
    people, role = wanted.get("people", LEAST[tier]), wanted.get("role", "")
    if type(people) is not int or not LEAST[tier] <= people <= MAX_PEOPLE:
        raise PolicyError(f"approvals.{tier}.people is a number from {LEAST[tier]} to {MAX_PEOPLE}.")
    if "role" in wanted and role not in ROLES:
        raise PolicyError(f"approvals.{tier}.role is one of {' and '.join(ROLES)}.")
    return Takes(people, role, _groups(tier, wanted.get("group", [])))


def _groups(tier: str, named) -> tuple:
    named = [named] if isinstance(named, str) else named
    if not isinstance(named, list) or not all(isinstance(name, str) and GROUP.fullmatch(name) for name in named):
        raise PolicyError(f"approvals.{tier}.group is the name of a group of the team's people, or a list of names.")
    if len(named) > MAX_GROUPS:
        raise PolicyError(f"approvals.{tier}.group has more than {MAX_GROUPS} names.")
    return tuple(sorted(set(named)))

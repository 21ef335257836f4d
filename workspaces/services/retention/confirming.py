"""Save rules only after what they delete was shown: the digest of the shown rules and deletions confirms them."""

import hashlib
from dataclasses import dataclass

from dashboard.models import Actor
from dashboard.text.strict_json import canonical
from workspaces.services.retention import rules as saved_rules
from workspaces.services.retention.layers import COUNTS, Terms
from workspaces.services.retention.preview import Preview, preview
from workspaces.services.retention.rules import Rules

Changes = dict[tuple[str, str], Terms | None]


@dataclass(frozen=True)
class Proposal:
    """Changed rules that were checked, what they delete, and the digest that confirms exactly these rules."""

    changes: Changes
    preview: Preview
    digest: str

    @property
    def needs_confirmation(self) -> bool:
        return self.preview.deletes


def propose(team, changes: Changes) -> Proposal:
    """Check changed rules and work out what they delete. Problem 422 for rules that cannot be."""
    saved_rules.check(team, changes)
    after = Rules.of(team).changed(changes)
    return Proposal(changes, preview(team, after), _digest(team, after))


def _digest(team, rules: Rules) -> str:
    own = sorted(rules.own.items())
    told = [[*key, terms.days, terms.hours, *(getattr(terms, count) for count in COUNTS)] for key, terms in own]
    return hashlib.sha256(canonical([str(team.pk), told])).hexdigest()[:32]


def save(team, proposal: Proposal, *, by: Actor) -> bool:
    """Save the proposed rules. Return False if nothing changed."""
    return saved_rules.save(team, proposal.changes, by=by)

"""The part of a card about what its kind of call may do from now on: a grant, or a rule of the policy."""

from functools import cached_property

from approvals.actions import grant_scopes
from approvals.reports.policy_changes import proposals


class RulePart:
    """Mixed into Card: uses its `action`, `caller` and `may_decide`."""

    @cached_property
    def may_allow_more(self) -> bool:
        """Whether a grant can be given on this card."""
        return self.may_decide and grant_scopes.has_scopes(self.action)

    @cached_property
    def may_make_rule(self) -> bool:
        """Whether this person can make a rule of the policy of this card."""
        return self.caller.can("write_policy", self.action.team_id) and proposals.has_proposals(self.action)

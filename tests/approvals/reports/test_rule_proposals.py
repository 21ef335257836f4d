"""What a card says of a rule to let calls run is no narrower than what the rule matches."""

import pytest

from approvals.models import Tier
from approvals.policy import Policy, classify
from approvals.reports.policy_changes import proposals

pytestmark = pytest.mark.django_db

# Calls of a card, and others that the rule offered there lets run as well.
ALIKE = [
    ("Bash", {"command": "cargo install cargo-audit --locked"}, {"command": "cargo install other-crate --locked"}),
    ("Bash", {"command": "npm install lodash"}, {"command": "npm install left-pad"}),
    ("Bash", {"command": "git push origin feature"}, {"command": "git push origin other"}),
    ("WebFetch", {"url": "https://docs.example/a", "prompt": "x"}, {"url": "https://docs.example/b/c", "prompt": "x"}),
    ("mcp__crm__update_contact", {"id": 1}, {"id": 2, "all": True}),
]


@pytest.mark.parametrize(("tool", "asked", "other"), ALIKE)
def test_no_proposal_excludes_what_its_rule_lets_run(ask, workspace, tool, asked, other):
    action = ask(asked, tool=tool, workspace=workspace)
    assert action.tier in (Tier.HIGH, Tier.CRITICAL, Tier.MEDIUM)
    offered = proposals.of_action(action).get("low", [])
    assert offered
    for each in offered:
        policy = Policy.of_rules([each.rule])
        names = [str(value) for value in asked.values()] + asked.get("command", "").split()[2:]
        if classify(tool, other, policy=policy).rule == each.rule:
            assert not any(
                name in each.covers + each.never for name in names if len(name) > 3 and name not in each.rule
            )
        assert "Nothing but" not in each.never
        assert "every workspace" in each.never

"""Import an agent's own allow rules at `connect`: all of the user's own, and the repository's if accepted."""

import json
import tomllib

from approvals.agents.folder_hook import AllowRules
from approvals.evaluation import policies
from approvals.past.trust import table_text
from approvals.policy import Policy
from dashboard.models import Actor


def none_of(rules: list[str]) -> list[str]:
    """Choose no rule of the repository."""
    return []


def take_over(workspace, rules: AllowRules, chosen: list[str], *, by: Actor) -> list[str]:
    """Add the user's and the chosen rules to the folder's policy, except too broad ones; return operator notes."""
    mine = Policy.of_rules(dict.fromkeys([*rules.own, *chosen]))
    taken = [rule.text for rule in mine.rules["low"]]
    if taken:
        active = policies.active(workspace.team_id)
        base = policies.compiled(active)
        lists = {tier: [rule.text for rule in listed] for tier, listed in base.rules.items()}
        lists["low"] = [*lists.get("low", []), *taken]
        policies.add(
            workspace.team_id, _text(base.mode, lists, active.text), environment=workspace.environment, actor=by
        )
    left = [rule for rule in rules.committed if rule not in chosen]
    return [
        *(f"Imported: {rule}" for rule in taken),
        *(f"Not imported: {rule} ({why})" for rule, why in mine.ignored.items()),
        *(f"Not imported: {rule} (it comes with the repository, and nobody accepted it)" for rule in left),
    ]


def _text(mode, lists, based_on: str) -> str:
    """Return the text of a policy with these lists, which trusts what the policy `based_on` trusts."""
    lines = [f"mode = {json.dumps(mode)}"]
    lines += [f"{tier} = {json.dumps(rules)}" for tier, rules in lists.items() if rules]
    trusted = tomllib.loads(based_on).get("trust")
    return "\n".join(lines) + "\n" + (table_text(trusted) if trusted else "")

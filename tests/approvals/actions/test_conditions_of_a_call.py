"""Conditions of the policy in the product: the agent, its environment and labels, and the hour decide with the call."""

from datetime import UTC, datetime, timedelta

import pytest

from approvals.evaluation import policies
from approvals.reports.policy_changes import effect
from approvals.reports.policy_changes.scopes import Scope
from dashboard.database import clock
from dashboard.people.access import caller_of
from dashboard.problems import Problem

pytestmark = pytest.mark.django_db
TARGETS = '[targets]\nproduction = ["kube:prod-*"]\nstaging = ["kube:staging"]\n'
STAGING, PRODUCTION = ({"command": f"kubectl --context {name} apply -f x.yml"} for name in ("staging", "prod-eu"))


@pytest.fixture
def use(lena, team):
    """`use(text)`: make this text the policy of the team."""
    return lambda text: policies.save(text, caller=caller_of(lena), team=team)


def test_an_agent_can_write_to_staging_and_needs_two_people_for_production(use, ask, agent, workspace):
    use(
        f'{TARGETS}[[when]]\ntarget = "staging"\nagent = "{agent.name}"\nmedium = ["writes"]\n'
        '[[when]]\ntarget = "production"\ncritical = ["writes"]\n'
    )
    found = [ask(call, workspace=workspace) for call in (STAGING, PRODUCTION)]
    assert [action.tier for action in found] == ["medium", "critical"]
    assert found[1].status == "pending"


def test_another_agent_asks_for_staging_as_before(use, ask, workspace):
    use(f'{TARGETS}[[when]]\ntarget = "staging"\nagent = "somebody-else"\nmedium = ["writes"]\n')
    assert ask(STAGING, workspace=workspace).tier == "high"


def test_labels_and_the_environment_of_the_workspace_decide(use, ask, workspace):
    workspace.labels = {"team": "payments"}
    workspace.save()
    use(
        '[[when]]\nlabel = "team:payments"\nforbidden = ["Bash(make release)"]\n'
        f'[[when]]\nenvironment = "{workspace.environment.name}"\nhigh = ["Bash(ls)"]\n'
    )
    assert ask({"command": "make release"}, workspace=workspace).tier == "forbidden"
    assert ask({"command": "ls"}, workspace=workspace).tier == "high"
    assert ask({"command": "ls"}).tier != "forbidden"


def test_an_approval_is_not_used_in_hours_that_forbid_the_call(use, ask, decide, consume, bob, workspace, monkeypatch):
    use('[[when]]\nhours = "22:00-06:00"\nforbidden = ["Bash(git push *)"]\n')
    noon = datetime.now(UTC).replace(hour=12, minute=0) + timedelta(days=1)
    monkeypatch.setattr(clock, "now", lambda: noon)
    action = ask({"command": "git push origin topic"}, workspace=workspace, expires_in_s=86_000)
    assert action.tier == "high"
    decide(action, "approve", by=bob)
    monkeypatch.setattr(clock, "now", lambda: noon.replace(hour=23))
    with pytest.raises(Problem, match="does not allow this at this hour") as refused:
        consume(action)
    assert refused.value.status == 409


def test_the_effect_on_the_last_month_asks_the_conditions_about_each_call(use, ask, agent, team, workspace):
    use(TARGETS)
    numbers = [ask(call, workspace=workspace).number for call in (STAGING, PRODUCTION)]
    text = f'{TARGETS}[[when]]\ntarget = "production"\nagent = "{agent.name}"\ncritical = ["writes"]\n'
    found = effect.of_text(Scope(team), text, seconds=60)
    assert [change.action.number for change in found.groups[effect.MORE_PEOPLE]] == numbers[1:]
    other = effect.of_text(Scope(team), text.replace(agent.name, "somebody-else"), seconds=60)
    assert other.changed == 0

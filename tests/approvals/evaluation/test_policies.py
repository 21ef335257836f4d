"""The active policy, and its next version."""

import pytest

from approvals.evaluation import policies
from approvals.models import Policy
from approvals.policy import default_policy
from dashboard.models import Event
from dashboard.problems import Problem
from workspaces.models import Environment

pytestmark = pytest.mark.django_db


def test_a_team_without_one_gets_its_first(team):
    policy = policies.active(team.pk)
    assert (policy.number, policy.text, policy.by) == (1, default_policy("irreversible"), None)
    assert policies.active(team.pk).pk == policy.pk
    assert Event.objects.filter(verb="policy.saved").count() == 1


def test_a_saved_one_is_in_force_at_once_and_the_old_one_stays(team, person, lena):
    first = policies.active(team.pk)
    second = policies.save(default_policy("everything"), caller=person(lena), team=team)
    assert (second.number, second.by) == (2, lena)
    assert policies.active(team.pk) == second
    assert list(Policy.objects.order_by("number").values_list("pk", "active")) == [(first.pk, False), (second.pk, True)]


def test_an_environment_may_have_its_own_for_all_its_versions(team, person, lena):
    first = Environment.objects.create(team=team, name="web", version=1)
    own = policies.save(default_policy("everything"), caller=person(lena), team=team, environment=first)
    second = Environment.objects.create(team=team, name="web", version=2)
    other = Environment.objects.create(team=team, name="data", version=1)
    assert policies.active(team.pk, first) == policies.active(team.pk, second) == own
    assert policies.active(team.pk, other).environment is None


def test_a_reviewer_does_not_write_it(team, person, bob):
    with pytest.raises(Problem) as refused:
        policies.save(default_policy("everything"), caller=person(bob), team=team)
    assert (refused.value.status, Policy.objects.count()) == (403, 0)


def test_a_policy_whose_tests_fail_is_refused_and_the_old_one_stays(team, person, lena):
    policies.active(team.pk)
    text = 'mode = "everything"\n[[tests]]\ntool = "Bash"\ninput = {command = "ls"}\ntier = "low"\n'
    with pytest.raises(Problem) as refused:
        policies.save(text, caller=person(lena), team=team)
    assert (refused.value.status, refused.value.detail.startswith("Test 1 of the policy fails")) == (422, True)
    assert policies.active(team.pk).number == 1

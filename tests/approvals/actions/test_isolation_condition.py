"""The condition isolation: what separates the workspace's programs from their host, as its host has found it."""

import pytest

from approvals.evaluation import policies
from approvals.evaluation.judge import judge
from approvals.policy import PolicyError, default_policy, load_policy
from approvals.policy.conditions import ISOLATION
from dashboard.database import clock
from dashboard.models import Actor
from workspaces.models import Environment, Runner
from workspaces.provisioning import isolation

from ..conftest import PUSH

pytestmark = pytest.mark.django_db
WEAK = '\n[[when]]\nisolation = ["none", "pod-runc"]\nforbidden = ["Bash(git push *)"]\n'
FOUND = {"isolation": "pod-runc", "available": True, "classes": {"gvisor": {"isolation": "pod-gvisor"}}}


@pytest.fixture
def pod(workspace):
    """The workspace as a pod of a host whose cluster has gVisor as well."""
    runner = Runner.objects.create(host="h", heartbeat_at=clock.now(), capabilities={"kubernetes": FOUND})
    Environment.objects.update(driver="kubernetes", minimum_isolation="pod-runc")
    workspace.runner = runner
    workspace.save()
    workspace.environment.refresh_from_db()
    policies.add(workspace.team_id, default_policy() + WEAK, actor=Actor.system("test"))
    return workspace


def tier(workspace, team):
    return judge("Bash", PUSH, None, workspace, team.pk, agent="claude").tier


def test_a_pod_on_runc_and_one_in_gvisor_are_judged_differently(pod, team):
    assert tier(pod, team) == "forbidden"
    pod.environment.runtime_class = "gvisor"
    assert tier(pod, team) == "high"


def test_a_sandbox_has_the_isolation_of_its_driver_and_a_call_without_workspace_has_none(pod, team):
    pod.environment.driver = "sandbox"
    assert tier(pod, team) == "high"
    assert tier(None, team) == "forbidden"


def test_each_level_can_be_named_and_nothing_else():
    assert ISOLATION == isolation.LEVELS
    load_policy('[[when]]\nisolation = "pod-*"\nhigh = ["calls"]')
    with pytest.raises(PolicyError, match="there is no isolation pod_runc; there are: none, namespace"):
        load_policy('[[when]]\nisolation = "pod_runc"\nhigh = ["calls"]')

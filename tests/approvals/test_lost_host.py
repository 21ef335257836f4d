"""What ends when the host that was to carry an action out is lost for good."""

import pytest

from approvals import tasks
from approvals.models import Status
from dashboard.models import Actor
from workspaces.lifecycle.lost_hosts import give_up
from workspaces.models import Operation, Phase, Runner, Workspace

LOST = "Its host host-b is lost, and its files with it."


@pytest.fixture
def approved(ask, decide, bob, workspace):
    """An approved command of the broker in a workspace of host-b."""
    runner = Runner.objects.create(host="host-b")
    Workspace.objects.filter(pk=workspace.pk).update(runner=runner)
    workspace.refresh_from_db()
    action = ask(workspace=workspace, mode="broker")
    decide(action, by=bob)
    action.refresh_from_db()
    return action


def lose(action):
    give_up(action.workspace.runner, by=Actor.system("test"))
    assert tasks.sweep() == 1
    assert tasks.sweep() == 0
    action.refresh_from_db()


def test_an_action_that_had_not_begun_is_cancelled_and_says_why(approved):
    lose(approved)
    assert (approved.status, approved.end_code) == (Status.CANCELLED, "not_started")
    assert approved.result["note"] == f"{LOST} It did not run."


@pytest.mark.parametrize("status", [Status.APPROVED, Status.RUNNING])
def test_of_one_that_had_begun_nobody_knows_whether_it_ran(approved, status):
    Operation.objects.filter(pk=approved.operation_id).update(phase=Phase.STARTED)
    type(approved).objects.filter(pk=approved.pk).update(status=status)
    lose(approved)
    assert approved.status == Status.UNCERTAIN
    assert approved.result["note"] == f"{LOST} Whether this ran is unknown."

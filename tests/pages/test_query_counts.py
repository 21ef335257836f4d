"""The pages people keep open ask the database as often for thirty rows as for one."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from approvals.models import Action, Status
from dashboard import clock
from dashboard.models import Agent, Event
from workspaces.models import State

from .conftest import FORCE, LIST, PUSH, make_command, make_workspace

PAGES = ["/", "/waiting/", "/actions/", "/workspaces/", "/log/", "/agents/", "/environments/"]
PAGES += ["/w/payments/repo-task-1/", "/w/payments/repo-task-1/checks/", "/w/payments/repo-task-1/snapshots/"]


@pytest.fixture
def cost(browser_of, alice):
    client = browser_of(alice)
    client.get("/")  # the first visit of the Desk notes it

    def queries(address) -> int:
        with CaptureQueriesContext(connection) as found:
            assert client.get(address).status_code == 200
        return len(found)

    return queries


def fill(number, team, agent, ask, decide, alice, bob, workspace):
    """One more of everything that the pages list."""
    ask({"command": f"git push origin b{number}"}, workspace=workspace)
    ask({"command": f"ls {number}"}, workspace=workspace)
    said_no = ask({"command": f"git push origin no{number}"})
    decide(said_no, "deny", by=bob, comment="no")
    half = ask({"command": f"git push --force origin f{number}"}, workspace=workspace)
    decide(half, by=bob)
    # On the Desk an approval that no agent picked up counts only after a while; here all of them do at once.
    Action.objects.filter(status=Status.APPROVED).update(decided_at=clock.now() - timedelta(hours=1))
    make_command(workspace, f"echo {number}")
    make_command(workspace, "make test", check_name="tests")
    make_workspace(team, agent, f"other-{number}", state=State.FAILED, reason="The setup failed.")
    Agent.objects.create(team=team, name=f"agent {number}", owner=alice)


def test_thirty_rows_cost_what_one_costs(cost, team, agent, ask, decide, alice, bob, workspace):
    type(workspace.environment).objects.update(checks={"tests": "make test"})
    for arguments in (PUSH, FORCE, LIST):
        ask(arguments, workspace=workspace)
    fill(0, team, agent, ask, decide, alice, bob, workspace)
    few = {address: cost(address) for address in PAGES}
    for number in range(1, 30):
        fill(number, team, agent, ask, decide, alice, bob, workspace)
    assert Event.objects.count() > 100
    cost("/")  # a visit that is noted again, after so long a time
    many = {address: cost(address) for address in PAGES}
    assert {address: (count, few[address]) for address, count in many.items() if count > few[address]} == {}

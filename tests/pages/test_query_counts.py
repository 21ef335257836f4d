"""The pages people keep open ask the database as often for thirty rows as for one."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from approvals.models import Action, AgentSession, Status
from dashboard.database import clock
from dashboard.models import Agent, Event
from workspaces.models import Lesson, Schedule, ScheduledRun, State
from workspaces.services.notes import versions
from workspaces.services.notes.texts import NoteText

from .conftest import FORCE, LIST, PUSH, make_command, make_workspace

PAGES = ["/", "/waiting/", "/actions/", "/workspaces/", "/log/", "/agents/", "/environments/", "/measures/"]
PAGES += ["/tokens/", "/me/"]
PAGES += ["/changed/?since=week", "/unasked/?since=week"]
PAGES += ["/w/payments/repo-task-1/", "/w/payments/repo-task-1/checks/", "/w/payments/repo-task-1/snapshots/"]
PAGES += ["/lessons/", "/w/payments/repo-task-1/notes/"]
PAGES += ["/schedules/", "/tasks/?since=week", "/set-up/"]
PAGES += ["/conversations/", "/w/payments/repo-task-1/conversations/"]


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
    versions.add(workspace, NoteText(f"note {number}"), by={}, days=None, given=True)
    about = {"workspace": workspace, "repository": "git.example.org/x/y", "number": number}
    Lesson.objects.create(team=team, text=f"lesson {number}", sha256="", created_at=clock.now(), **about)
    make_command(workspace, "make test", check_name="tests")
    about = {"team": team, "cron": "0 3 * * *", "kind": "command", "workspace": workspace, "created_at": clock.now()}
    schedule = Schedule.objects.create(name=f"schedule {number}", **about)
    ScheduledRun.objects.create(schedule=schedule, due_at=clock.now(), state="failed")
    make_workspace(team, agent, f"other-{number}", state=State.FAILED, reason="The setup failed.")
    Agent.objects.create(team=team, name=f"agent {number}", owner=alice)
    first = AgentSession.objects.order_by("started_at").first()
    when, parent = clock.now(), first if number % 2 else None  # every other is a sub-agent of the first
    about = {"dialect": "claude-code", "workspace": workspace, "parent": parent, "started_at": when, "last_at": when}
    AgentSession.objects.create(team=team, agent=agent, native_id=f"s{number}", **about)


def test_thirty_rows_cost_what_one_costs(cost, team, agent, ask, decide, alice, bob, workspace):
    type(workspace.environment).objects.update(checks={"tests": "make test"})
    for arguments in (PUSH, FORCE, LIST):
        ask(arguments, workspace=workspace)
    fill(0, team, agent, ask, decide, alice, bob, workspace)
    versions.add(workspace, NoteText("another"), by={}, days=None, given=True)  # with one, no two are compared
    few = {address: cost(address) for address in PAGES}
    for number in range(1, 30):
        fill(number, team, agent, ask, decide, alice, bob, workspace)
    assert Event.objects.count() > 100
    # Once a minute a visit is noted, which costs queries of its own; not again at once.
    many = {address: cost(address) for address in PAGES}
    more = {address: cost(address) for address, count in many.items() if count > few[address]}
    assert {address: (count, few[address]) for address, count in more.items() if count > few[address]} == {}

"""The lists of the Django admin ask the database as often for many rows as for few."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from approvals.models import Grant, Policy
from dashboard.database import clock
from dashboard.models import Actor, Agent
from dashboard.people.tokens import make_token
from workspaces import secrets
from workspaces.models import Environment

pytestmark = pytest.mark.django_db

LISTS = [
    "approvals/action",
    "approvals/grant",
    "approvals/policy",
    "dashboard/agent",
    "dashboard/token",
    "workspaces/environment",
    "workspaces/secret",
    "workspaces/teamretention",
]


@pytest.fixture
def admin(browser_of, alice):
    alice.is_staff = alice.is_superuser = True
    alice.save()
    return browser_of(alice)


@pytest.fixture
def add_rows(team, bob, workspace, ask):
    """`add_rows(3)`: three rows of each list, with all that they refer to."""

    def add(count):
        for _ in range(count):
            number = Agent.objects.count()
            agent = Agent.objects.create(team=team, name=f"agent-{number}", owner=bob)
            plain = make_token(team, agent=agent)
            ask({"command": f"git push origin b{number}"}, token=plain)
            soon = clock.now() + timedelta(hours=1)
            Grant.objects.create(
                team=team, agent=agent, workspace=workspace, by=bob, expires_at=soon, uses_left=1, says="x"
            )
            secrets.save(team, f"KEY_{number}", "agent", "a value of secrets", by=Actor.person(bob))
            made = Environment.objects.create(team=team, name=f"env-{number}", version=1, driver="sandbox")
            Policy.objects.create(team=team, environment=made, number=100 + number, text="", by=bob)

    return add


def queries_of(admin, name) -> int:
    with CaptureQueriesContext(
        connection,
    ) as caught:
        assert admin.get(f"/admin/{name}/").status_code == 200
    return len(caught)


def test_a_list_takes_as_many_queries_for_many_rows(admin, add_rows):
    add_rows(2)
    admin.get("/admin/")  # once a minute a request notes that the session is used
    few = {name: queries_of(admin, name) for name in LISTS}
    add_rows(6)
    assert {name: queries_of(admin, name) for name in LISTS} == few
    assert max(few.values()) < 20

"""A team whose sweep has not run for twice its interval: on the Desk, by API, and as an alert once a day."""

from datetime import timedelta

import pytest

from approvals.notify.log_targets import alerts
from dashboard.database import clock
from dashboard.models import Event, Team
from workspaces import tasks
from workspaces.models import Operation, Phase
from workspaces.services.retention import sweeps

WORDS = "Retention of Payments has not run"


def swept(team, hours, *, ok=True, dry_run=False, phase=Phase.SETTLED):
    ended = clock.now() - timedelta(hours=hours)
    outcome = {"ok": ok} if phase == Phase.SETTLED else None
    return Operation.objects.create(
        team=team,
        kind="retention_sweep",
        args={"dry_run": dry_run},
        phase=phase,
        outcome=outcome,
        due_at=ended,
        settled_at=ended if outcome else None,
    )


@pytest.fixture
def old(team):
    """The team, made a year ago."""
    Team.objects.update(created_at=clock.now() - timedelta(days=365))
    return team


def late() -> list:
    return [str(team) for team, _ in sweeps.late(Team.objects.values("pk"))]


def test_only_a_complete_sweep_counts(old):
    assert late() == ["Payments"]
    swept(old, 1, ok=False)
    swept(old, 1, dry_run=True)
    swept(old, 1, phase=Phase.DUE)
    assert late() == ["Payments"]
    last = swept(old, 49)
    assert [since for _, since in sweeps.late([old.pk])] == [last.settled_at]
    swept(old, 47)
    assert late() == []


def test_a_new_team_has_two_days_for_its_first(team):
    assert late() == []
    Team.objects.update(created_at=clock.now() - timedelta(hours=49))
    assert late() == ["Payments"]


def test_the_desk_and_the_api_say_so_until_one_has_run(old, bob, mallory, browser_of, read, api, token_of):
    assert WORDS in read(browser_of(bob), "/")
    assert WORDS not in read(browser_of(mallory), "/")
    told = api(token_of(bob)).get("/api/v1/retention").json()["late_since"]
    assert told[:10] == f"{clock.now() - timedelta(days=365):%Y-%m-%d}"
    swept(old, 1)
    assert WORDS not in read(browser_of(bob), "/")
    assert api(token_of(bob)).get("/api/v1/retention").json()["late_since"] is None


def test_the_log_has_an_alert_once_a_day(old):
    for _ in range(2):
        tasks.check_sweeps()
    [event] = Event.objects.filter(verb="retention.late")
    assert (event.team, event.actor_label, alerts.is_alert(event)) == (old, "retention", True)
    assert alerts.sentence(event, old).startswith("Payments: The sweep of retention has not run for two days")
    sweeps.say_if_late(now=clock.now() + timedelta(hours=25))
    assert Event.objects.filter(verb="retention.late").count() == 2

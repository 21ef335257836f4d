"""The runner asks for all that nobody asked it for in one statement, and runs only what that finds."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from approvals.registered import runner
from dashboard.database import clock
from workspaces import extensions
from workspaces.models import Operation, Phase, Rehearsal, Run, Runner, State, Workspace
from workspaces.runner.sweeps import Sweep, run_due, sweeps_of

pytestmark = pytest.mark.django_db
LONG = timedelta(days=30)


@pytest.fixture
def host(settings):
    settings.HANDRAIL_SNAPSHOT_SECONDS = 0  # the workspaces here have no file
    return Runner.objects.create(host="here", heartbeat_at=clock.now())


@pytest.fixture
def all_sweeps(host, monkeypatch):
    monkeypatch.setattr(extensions, "kinds", {})
    for name in ("sweeps", "system_files"):
        monkeypatch.setattr(extensions, name, [])
    runner.register()
    return sweeps_of(host)


def asked() -> set[str]:
    return set(Operation.objects.values_list("kind", flat=True))


def test_a_round_with_nothing_to_do_is_one_statement(all_sweeps, workspace, host):
    Workspace.objects.filter(pk=workspace.pk).update(runner=host, last_active_at=clock.now())
    asking = [sweep for sweep in all_sweeps if sweep.due]
    assert len(asking) >= 9
    with CaptureQueriesContext(connection) as ran:
        run_due(asking)
    assert len([query for query in ran if "clock_timestamp" not in query["sql"]]) == 1


@pytest.mark.parametrize("own", [0, 60])
def test_an_idle_workspace_is_found(workspace, host, own):
    workspace.environment.idle_seconds = own
    workspace.environment.save()
    Run.objects.create(workspace=workspace, runner=host, started_at=clock.now() - LONG)
    Workspace.objects.filter(pk=workspace.pk).update(runner=host, last_active_at=clock.now())
    run_due(sweeps_of(host))
    assert asked() == set()
    Workspace.objects.filter(pk=workspace.pk).update(last_active_at=clock.now() - LONG)
    run_due(sweeps_of(host))
    assert asked() == {"pause"}


def test_a_workspace_kept_awake_is_found_when_its_time_is_over(workspace, host):
    Run.objects.create(workspace=workspace, runner=host, started_at=clock.now() - LONG)
    rows = Workspace.objects.filter(pk=workspace.pk)
    rows.update(runner=host, last_active_at=clock.now() - LONG, awake_until=clock.now() + LONG)
    run_due(sweeps_of(host))
    assert asked() == set()
    rows.update(awake_until=clock.now() - timedelta(seconds=1))
    run_due(sweeps_of(host))
    assert asked() == {"pause"}


@pytest.mark.parametrize("own", [0, 60])
def test_a_workspace_paused_for_long_is_found(workspace, host, own):
    workspace.environment.stop_seconds = own
    workspace.environment.save()
    run = Run.objects.create(workspace=workspace, runner=host, started_at=clock.now() - 2 * LONG, ended_at=clock.now())
    Workspace.objects.filter(pk=workspace.pk).update(runner=host, state=State.PAUSED)
    run_due(sweeps_of(host))
    assert asked() == set()
    Run.objects.filter(pk=run.pk).update(ended_at=clock.now() - LONG)
    run_due(sweeps_of(host))
    assert asked() == {"stop"}


def test_a_missing_end_snapshot_is_found(workspace, host):
    Workspace.objects.filter(pk=workspace.pk).update(runner=host, state=State.STOPPED, missing_snapshot="disk full")
    run_due(sweeps_of(host))
    assert asked() == {"snapshot"}


def test_a_lost_rehearsal_is_found(workspace, host):
    lost = Operation.objects.create(workspace=workspace, kind="rehearse", due_at=clock.now(), phase=Phase.UNCERTAIN)
    tried = Rehearsal.objects.create(workspace=workspace, operation=lost, created_at=clock.now())
    run_due(sweeps_of(host))
    tried.refresh_from_db()
    assert tried.status == "failed"


def test_a_claim_of_a_lost_host_is_found(team, host):
    other = Runner.objects.create(host="other")
    late = {"phase": Phase.CLAIMED, "runner": other, "lease_until": clock.now() - LONG}
    operation = Operation.objects.create(team=team, kind="sweep", due_at=clock.now(), **late)
    run_due(sweeps_of(host))
    operation.refresh_from_db()
    assert (operation.phase, operation.runner) == (Phase.DUE, None)


def test_an_expired_action_is_found(all_sweeps, ask):
    action = ask({"command": "git push"})
    type(action).objects.update(expires_at=clock.now() - timedelta(seconds=1))
    run_due(all_sweeps)
    action.refresh_from_db()
    assert action.status == "expired"


def test_an_error_in_one_does_not_stop_the_others(caplog):
    ran = []
    run_due([Sweep(lambda: 1 / 0), Sweep(lambda: ran.append(1))])
    assert ran == [1]
    assert "a sweep failed" in caplog.text

"""A service that always fails is one counted row, a line on the workspace's page, and can be stopped between tries."""

from datetime import timedelta
from html import unescape

import pytest
from django.urls import reverse

from dashboard.database import clock
from workspaces.models import Command, Operation, Phase, Run, Runner
from workspaces.runner.reconcile import services

FLAKY = "sh -c 'echo boo; exit 3'"


@pytest.fixture
def runner(db):
    return Runner.objects.create(host="vm", heartbeat_at=clock.now())


@pytest.fixture
def run(workspace, runner):
    """A run of the workspace in which its service failed six times, the last time two minutes ago."""
    workspace.environment.services = {"flaky": FLAKY}
    workspace.environment.save()
    workspace.runner = runner
    workspace.save()
    run = Run.objects.create(workspace=workspace, runner=runner, started_at=clock.now(), ready_at=clock.now())
    for number in range(6):
        at = clock.now() - timedelta(minutes=7 - number)
        operation = Operation.objects.create(
            workspace=workspace, kind="service", phase=Phase.SETTLED, outcome={"ok": True}, due_at=at, settled_at=at
        )
        made = Command.objects.create(
            workspace=workspace,
            operation=operation,
            run=run,
            argv=["x"],
            shown=FLAKY,
            service="flaky",
            exit_status=3,
            started_at=at,
            ended_at=at,
        )
        Command.objects.filter(pk=made.pk).update(created_at=at)
    return run


def read(browser, name: str, workspace) -> str:
    answer = browser.get(reverse(name, args=[workspace.team.slug, workspace.key]))
    return " ".join(unescape(answer.content.decode()).split())


def test_a_failing_service_is_one_counted_row_and_a_line_on_the_page(browser_of, lena, workspace, run):
    timeline = read(browser_of(lena), "workspace", workspace)
    assert timeline.count('id="command-') == 1
    assert "Failed with status 3 · failed 6 times" in timeline
    assert "The service flaky failed 6 times" in timeline
    commands = read(browser_of(lena), "workspace-checks", workspace)
    assert commands.count('id="command-') == 1
    assert "Failed, restarting" in commands
    assert "6 times, last" in commands


def test_while_it_waits_for_its_next_try_it_can_be_stopped_and_started_again(browser_of, lena, workspace, run, runner):
    browser = browser_of(lena)
    place = {"team": workspace.team.slug, "key": workspace.key}
    assert reverse("service-stop", kwargs=place) in read(browser, "workspace-checks", workspace)
    browser.post(reverse("service-stop", kwargs=place), {"service": "flaky"})
    services.keep_up(runner)
    assert not Operation.objects.open().exists()
    text = read(browser, "workspace-checks", workspace)
    assert "Stopped by a person" in text
    assert "The service flaky failed" not in read(browser, "workspace", workspace)
    browser.post(reverse("service-start", kwargs=place), {"service": "flaky"})
    assert Operation.objects.open().get().command.service == "flaky"
    assert Run.objects.get().stopped_services == []


def test_a_failing_service_is_tried_again_unless_somebody_stops_it(workspace, run, runner):
    services.keep_up(runner)
    assert Operation.objects.open().get().command.service == "flaky"

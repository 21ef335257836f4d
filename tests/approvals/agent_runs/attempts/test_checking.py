"""The checks of an attempt run once each time that its agent is done."""

from datetime import timedelta

import pytest

from approvals.models import AgentRun, TaskAttempt
from approvals.tasks import follow_agents
from dashboard.database import clock
from workspaces.models import Command, Environment, Runner, State, Workspace

from .conftest import up


@pytest.fixture
def attempt(give, settings):
    """An attempt whose agent works, on this host."""
    Environment.objects.update(checks={"unit": "make test", "lint": "make lint"})
    up(give(attempts=[{"agent": "claude-code", "model": "claude-x"}]))
    here = Runner.objects.create(host=settings.HANDRAIL_HOST_NAME)
    Workspace.objects.filter(attempt__isnull=False).update(state=State.READY, runner=here)
    AgentRun.objects.update(state="stopped", changed_at=clock.now())
    return TaskAttempt.objects.get()


def done():
    AgentRun.objects.update(state="done", changed_at=clock.now())


def test_each_check_runs_once_when_the_agent_is_done(attempt):
    follow_agents()
    assert not Command.objects.exists()
    done()
    follow_agents()
    follow_agents()
    assert sorted(Command.objects.values_list("check_name", flat=True)) == ["lint", "unit"]
    assert {command.by["label"] for command in Command.objects.all()} == {"lena (task)"}


def test_they_run_again_after_its_next_turn(attempt):
    done()
    follow_agents()
    TaskAttempt.objects.update(checked_at=clock.now() - timedelta(seconds=5))
    done()
    follow_agents()
    assert Command.objects.filter(check_name="unit").count() == 2


def test_what_was_thrown_away_or_cannot_be_used_is_not_checked(attempt):
    done()
    TaskAttempt.objects.update(thrown_at=clock.now())
    follow_agents()
    assert not Command.objects.exists()
    TaskAttempt.objects.update(thrown_at=None)
    Workspace.objects.update(state=State.FAILED)
    follow_agents()
    assert not Command.objects.exists()

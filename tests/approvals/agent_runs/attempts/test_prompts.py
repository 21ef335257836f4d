"""What the agent of an attempt reads beside its task: where to leave a lesson."""

import pytest

from approvals import agent_runs
from approvals.agent_runs.code_host.closing import lesson_in
from approvals.models import AgentRun
from dashboard.people.access import caller_of
from tests.approvals.agent_runs.steps import WISH, follow
from workspaces.models import Command, Operation, Phase, Runner, State, Workspace

from .conftest import up


@pytest.fixture
def instructions():
    """What the program that starts next is given beside its prompt."""

    def found() -> str:
        follow()  # asks for the snapshot
        Operation.objects.update(phase=Phase.SETTLED, outcome={"ok": True, "snapshot": 2})
        follow()
        argv = Command.objects.get().argv
        return argv[argv.index("--append-system-prompt") + 1]

    return found


def test_an_attempt_is_asked_for_a_lesson_under_the_heading_that_is_read(give, instructions, settings):
    up(give(attempts=[{"agent": "claude-code", "model": "claude-x"}]))
    here = Runner.objects.create(host=settings.HANDRAIL_HOST_NAME)
    Workspace.objects.filter(attempt__isnull=False).update(state=State.READY, runner=here)
    text = instructions()
    assert "You work alone in this workspace" in text
    assert ".handrail/notes.md" in text
    heading = text.partition("`## ")[2].partition("`")[0]
    assert lesson_in(f"# Notes\n\n## {heading}\n\nRound half to even.\n") == "Round half to even."


def test_a_run_without_a_task_is_not(workspace, lena, instructions):
    agent_runs.start(workspace, WISH, caller=caller_of(lena))
    assert "Lesson" not in instructions()
    assert AgentRun.objects.count() == 1

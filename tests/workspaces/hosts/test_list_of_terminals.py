"""How a terminal ended is said in lists from its operation, without a question to the host that recorded it."""

import pytest

from dashboard.database import clock
from tests.pages.conftest import workspace  # noqa: F401 - a fixture
from workspaces.models import Operation, Phase, Runner, Terminal, Workspace
from workspaces.programs import terminals


@pytest.fixture
def ended(workspace):  # noqa: F811
    """`ended(outcome)`: a terminal with this outcome on a host that nobody can ask."""
    away = Runner.objects.create(host="away", heartbeat_at=clock.now())
    Workspace.objects.filter(pk=workspace.pk).update(runner=away)
    workspace.refresh_from_db()

    def make(**outcome):
        fields = {"kind": "terminal", "phase": Phase.SETTLED, "due_at": clock.now(), "outcome": outcome}
        operation = Operation.objects.create(workspace=workspace, **fields)
        return Terminal.objects.create(
            workspace=workspace, operation=operation, argv=["bash", "-l"], ended_at=clock.now()
        )

    return make


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        ({"ok": True, "end": "exited", "exit_status": 0}, "Exited (0)."),
        ({"ok": True, "end": "exited", "exit_status": 3}, "Exited (3)."),
        ({"ok": True, "end": "cancelled", "signal": 15}, "Ended: killed by SIGTERM: cancelled."),
        ({"ok": False, "end": "lost", "reason": "Its workspace ended.", "reason_code": "lost"}, "Its workspace ended."),
    ],
)
def test_the_outcome_says_it(ended, outcome, words):
    assert terminals.state_of(ended(**outcome)) == ("quiet", words)


def test_of_an_older_outcome_the_host_is_asked(ended):
    assert terminals.state_of(ended(ok=True)) == ("quiet", "Ended.")

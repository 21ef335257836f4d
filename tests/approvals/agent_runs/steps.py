"""What tests of runs do without the programs: look at the rows again, and end a command as the runner would."""

import json

from approvals.models import AgentRun, AgentTurn
from approvals.tasks import follow_agents
from dashboard.database import clock
from tests.workspaces.test_schedules import ended as command_ended
from tests.workspaces.test_schedules import keep_output

WISH = {"program": "claude-code", "task": "Make it green."}
ANSWER = {"type": "result", "subtype": "success", "is_error": False, "result": "It is green."}


def follow() -> AgentRun:
    follow_agents()
    return AgentRun.objects.order_by("-created_at").first()


def turn(run: AgentRun) -> AgentTurn:
    return run.turns.select_related("command").last()


def ended(run: AgentRun, *lines: dict | str, exit_status=0, **outcome) -> AgentRun:
    """The program of the last turn has printed these lines and ended; what the next look makes of it."""
    command = turn(run).command
    if lines:
        printed = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        keep_output(command, "".join(f"{line}\n" for line in printed).encode())
    command_ended(command, exit_status, started=clock.now(), **outcome)
    return follow()


def told(run: AgentRun) -> list[tuple[str, str]]:
    return list(run.turns.values_list("kind", "end"))

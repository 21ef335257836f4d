"""One harmless call through a hook that was just put in."""

import json
import subprocess
import time
import uuid
from pathlib import Path

from approvals.actions.transitions import withdraw
from approvals.agents.dialect import Dialect
from approvals.connect.connections import OPERATOR
from approvals.models import Action, ActionEndCode, Status
from dashboard.problems import unavailable

TEST_TIMEOUT = 90  # seconds


def try_out(line, team, cwd: Path, dialect: Dialect) -> str:
    """Make one harmless call with the commands that the agent will run, and report its outcome; return a note.

    `line(role)` is the shell command for "gate" or "report". No action stays open.
    """
    session = f"connect-{uuid.uuid4().hex[:12]}"
    action = Action.objects.filter(team=team, session=session)
    before, after = (dialect.test_call(session, str(cwd), ended=ended) for ended in (False, True))
    _run_hook(line("gate"), before, while_waiting=lambda: _withdraw_waiting(action))
    if action.filter(status=Status.RUNNING).exists():
        _run_hook(line("report"), after)
        return "A test call went through the hook and came back: allow."
    if action.filter(status=Status.CANCELLED).exists():
        return "A test call went through the hook: your policy asks a person first, so it was cancelled."
    return "A test call went through the hook and came back: deny, as your policy says."


def _withdraw_waiting(action):
    for waiting in action.filter(status=Status.PENDING):
        withdraw(waiting, OPERATOR, "This was the test call of `connect`.", code=ActionEndCode.WITHDRAWN)


def _run_hook(line: str, event: dict, while_waiting=lambda: None) -> str:
    """Return what the hook prints for the event. Problem 503 with its message when it fails or times out."""
    process = subprocess.Popen(
        ["/bin/sh", "-c", line],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline, given = time.monotonic() + TEST_TIMEOUT, json.dumps(event)
    with process:
        while True:
            try:
                out, err = process.communicate(given, timeout=0.5)
                break
            except subprocess.TimeoutExpired:
                given = None  # already sent
                if time.monotonic() > deadline:
                    process.kill()
                    raise unavailable(f"The test call had no answer for {TEST_TIMEOUT} seconds.") from None
                while_waiting()
    if process.returncode:
        raise unavailable(f"The test call was refused: {err.strip()}")
    return out

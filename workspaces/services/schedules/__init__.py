"""Schedules: jobs at the times of a cron text, their runs, and how a run compares with the one before."""

from workspaces.services.schedules.changes import (
    AGENT_FIELDS,
    MAX_KEEP,
    MAX_MINUTES,
    add,
    change,
    delete,
    environment_of,
    find,
    pause,
    resume,
)
from workspaces.services.schedules.comparing import Comparison, compare
from workspaces.services.schedules.runs import due, let_run, open_runs, pressing, run_now, step, stop

__all__ = [
    "AGENT_FIELDS",
    "MAX_KEEP",
    "MAX_MINUTES",
    "Comparison",
    "add",
    "change",
    "compare",
    "delete",
    "due",
    "environment_of",
    "find",
    "let_run",
    "open_runs",
    "pause",
    "pressing",
    "resume",
    "run_now",
    "step",
    "stop",
]

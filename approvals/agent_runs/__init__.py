"""Agents that Handrail starts: runs with a task, their turns, and what people answer to them."""

from approvals.agent_runs.answers import (
    accept,
    branch_for,
    discard,
    extend_budget,
    go_on,
    interrupt,
    later_runs,
    send_text,
    stop,
)
from approvals.agent_runs.following import step
from approvals.agent_runs.requests import find, place_for, start

__all__ = [
    "accept",
    "branch_for",
    "discard",
    "extend_budget",
    "find",
    "go_on",
    "interrupt",
    "later_runs",
    "place_for",
    "send_text",
    "start",
    "step",
    "stop",
]

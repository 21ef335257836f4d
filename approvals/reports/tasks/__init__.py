"""Tasks: what agents work on, each with its state, its last words, what it changed and what it asked."""

from approvals.reports.tasks.gathering import MOST, tasks_of
from approvals.reports.tasks.task import Asks, Task, TaskState

__all__ = ["MOST", "Asks", "Task", "TaskState", "tasks_of"]

"""Derive the state of tasks and attempts: checks, size of the change, asks, cost and time, in a few queries for all."""

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from django.db.models import Count, Q, Sum
from django.db.models.functions import Coalesce
from django.utils.translation import gettext_lazy

from approvals.models import (
    Action,
    AgentRunState,
    AgentSession,
    AgentTurn,
    Status,
    Task,
    TaskAttempt,
    TaskEnd,
    TaskThread,
)
from approvals.reports.ask_rate import ASKED
from dashboard.database import clock
from dashboard.problems import Problem
from workspaces.changes import changed_lines, history
from workspaces.changes.comparisons import Lines
from workspaces.models import Operation, State
from workspaces.programs.checks import Check, CheckState, checks_of

COUNTING_SECONDS = 0.5  # for counting lines in one answer; what is counted is cached
WITH = ("workspace__team", "workspace__environment", "workspace__baseline", "workspace__head", "run")


class Standing(StrEnum):
    """The state of an attempt. A task has the first state in this order that one of its attempts has."""

    ASKS = "asks you"
    WORKING = "working"
    READY = "ready to review"
    CHECKS_FAILED = "checks failed"
    FAILED = "failed"
    STOPPED = "stopped"
    THROWN_AWAY = "thrown away"
    MERGED = "merged"
    CANCELLED = "cancelled"
    CLOSED = "closed"


LABELS = {
    Standing.ASKS: (gettext_lazy("Asks you"), "amber"),
    Standing.WORKING: (gettext_lazy("Working"), "accent"),
    Standing.READY: (gettext_lazy("Ready to review"), "amber"),
    Standing.CHECKS_FAILED: (gettext_lazy("Checks failed"), "red"),
    Standing.FAILED: (gettext_lazy("Failed"), "red"),
    Standing.STOPPED: (gettext_lazy("Stopped"), "quiet"),
    Standing.THROWN_AWAY: (gettext_lazy("Thrown away"), "quiet"),
    Standing.MERGED: (gettext_lazy("Merged"), "calm"),
    Standing.CANCELLED: (gettext_lazy("Cancelled"), "quiet"),
    Standing.CLOSED: (gettext_lazy("Closed"), "quiet"),
}
OF_RUNS = {
    AgentRunState.STARTING: Standing.WORKING,
    AgentRunState.WORKING: Standing.WORKING,
    AgentRunState.ASKS: Standing.ASKS,
    AgentRunState.DONE: Standing.READY,
    AgentRunState.ACCEPTED: Standing.READY,
    AgentRunState.STOPPED: Standing.STOPPED,
    AgentRunState.DISCARDED: Standing.STOPPED,
    AgentRunState.INTERRUPTED: Standing.FAILED,
    AgentRunState.FAILED: Standing.FAILED,
}
ENDS = {
    TaskEnd.MERGED: Standing.MERGED,
    TaskEnd.CANCELLED: Standing.CANCELLED,
    TaskEnd.CLOSED: Standing.CLOSED,
}


class _Labelled:
    state: Standing

    @property
    def label(self) -> str:
        return str(LABELS[self.state][0])

    @property
    def tone(self) -> str:
        return LABELS[self.state][1]


@dataclass
class AttemptStands(_Labelled):
    """An attempt. `lines` is what differs from the files that it began with, None if that is not known."""

    attempt: TaskAttempt
    checks: list[Check]
    lines: Lines | None = None
    asks: int = 0  # calls for which a person was asked
    waiting: int = 0  # those of them that wait now
    next_call: UUID | None = None  # of those, the one that a page leads to
    cost: float = 0.0  # of its run at the team's prices; without one in US dollars, as its sessions say
    seconds: float = 0.0  # for which its agent worked: the turns of its run, else its sessions from first to last
    is_busy: bool = False  # a command or an operation on the workspace runs
    thread: TaskThread | None = None  # of the task, if this attempt was chosen
    state: Standing = Standing.WORKING

    @property
    def workspace(self):
        return self.attempt.workspace

    @property
    def is_thrown(self) -> bool:
        return self.attempt.thrown_at is not None

    def judged(self) -> Standing:
        run, place = self.attempt.run, self.workspace.state
        if self.is_thrown or self.workspace.trashed_at:
            return Standing.THROWN_AWAY
        if self.waiting:
            return Standing.ASKS
        if place == State.FAILED:
            return Standing.FAILED
        states = {check.state for check in self.checks}
        if self.is_busy or place in (State.CREATING, State.SETTING_UP) or CheckState.RUNNING in states:
            return Standing.WORKING
        of_run = OF_RUNS[run.state] if run else None
        if of_run in (Standing.WORKING, Standing.ASKS):
            return of_run
        if states & {CheckState.FAILED, CheckState.UNCERTAIN} or (self.thread and self.thread.failed_checks):
            return Standing.CHECKS_FAILED
        return of_run or self._without_run(states)

    def _without_run(self, states: set[CheckState]) -> Standing:
        """Nobody says when work by hand is done: the checks do, or else that there is something to look at."""
        is_done = states == {CheckState.PASSED} if states else bool(self.lines and self.lines.files)
        return Standing.READY if is_done else Standing.WORKING


@dataclass
class TaskStands(_Labelled):
    """A task with its attempts; of several, the state is that of the chosen one, or the first in their order."""

    task: Task
    attempts: list[AttemptStands] = field(default_factory=list)
    thread: TaskThread | None = None  # at the code host

    @property
    def state(self) -> Standing:
        if self.task.end:
            return ENDS[self.task.end]
        kept = [each.state for each in self.attempts if each.attempt.chosen] or [each.state for each in self.attempts]
        return min(kept, key=list(Standing).index, default=Standing.WORKING)

    @property
    def chosen(self) -> AttemptStands | None:
        return next((each for each in self.attempts if each.attempt.chosen), None)

    @property
    def waiting(self) -> int:
        return sum(each.waiting for each in self.attempts)

    @property
    def cost(self) -> float:
        return sum(each.cost for each in self.attempts)

    @property
    def kept(self) -> list[AttemptStands]:
        """The attempts that were not thrown away."""
        return [each for each in self.attempts if each.state != Standing.THROWN_AWAY]


def standing_of(tasks: Iterable[Task], *, live: bool = False) -> list[TaskStands]:
    """Return how the tasks stand, in their order. `live`: lines as the files are now, else in the newest snapshot."""
    found = {task.pk: TaskStands(task) for task in tasks}
    rows = list(TaskAttempt.objects.filter(task__in=found).select_related(*WITH))
    places = [row.workspace for row in rows]
    threads = TaskThread.objects.filter(task__in=found).select_related("pull")
    for thread in threads:
        found[thread.task_id].thread = thread
    checks, asked, busy, costs = checks_of(*places), _asked(places), _busy(places), _costs(rows)
    times = _times(rows)
    deadline = None if live else time.monotonic() + COUNTING_SECONDS
    for row in rows:
        place = row.workspace
        stands = AttemptStands(row, checks[place.pk], _lines(row, live, deadline), **asked[place.pk])
        stands.cost, stands.seconds, stands.is_busy = costs[place.pk], times[place.pk], place.pk in busy
        stands.thread = found[row.task_id].thread if row.chosen else None
        stands.state = stands.judged()
        found[row.task_id].attempts.append(stands)
    return list(found.values())


def _asked(places: list) -> dict:
    rows = Action.objects.filter(workspace__in=places).order_by().values("workspace")
    rows = rows.annotate(asks=Count("pk", filter=ASKED), waiting=Count("pk", filter=Q(status=Status.PENDING)))
    counted = {row["workspace"]: {"asks": row["asks"], "waiting": row["waiting"]} for row in rows}
    return defaultdict(dict, counted)


def _busy(places: list) -> set:
    """Return the ids of workspaces in which a command runs that is no service, or that an operation holds."""
    rows = Operation.objects.open().filter(workspace__in=places)
    rows = rows.filter(Q(exclusive=True) | Q(command__isnull=False, command__service=""))
    return set(rows.values_list("workspace", flat=True))


def _sessions(rows: list[TaskAttempt]):
    """Return the sessions of the attempts that no run works on."""
    return AgentSession.objects.filter(workspace__in=[row.workspace_id for row in rows if row.run is None])


def _times(rows: list[TaskAttempt]) -> dict:
    turns = AgentTurn.objects.filter(run__in=[row.run_id for row in rows if row.run_id])
    turns = turns.filter(command__started_at__isnull=False)  # the first waits until its workspace is up
    ended = Coalesce("command__ended_at", "ended_at")  # a turn ends when that is noticed
    spans = [*turns.values_list("run__workspace", "command__started_at", ended)]
    spans += _sessions(rows).values_list("workspace", "started_at", "last_at")
    found, now = defaultdict(float), clock.now()
    for place, began, ended in spans:
        found[place] += ((ended or now) - began).total_seconds()
    return found


def _costs(rows: list[TaskAttempt]) -> dict:
    sessions = _sessions(rows).order_by().values("workspace")
    found = defaultdict(float)
    found |= {row["workspace"]: float(row["cost"] or 0) for row in sessions.annotate(cost=Sum("cost"))}
    return found | {row.workspace_id: float(row.run.cost) for row in rows if row.run}


def _lines(row: TaskAttempt, live: bool, deadline: float | None) -> Lines | None:
    place = row.workspace
    if place.baseline is None or place.head is None:
        return None
    new = place.head.tree_hex
    if live and place.state == State.READY and not place.trashed_at:
        try:
            new = history.tree_at(place, history.LIVE)
        except Problem:  # the runner is away: what the newest snapshot has
            pass
    return changed_lines.between(place.team_id, place.baseline.tree_hex, new, until=deadline)

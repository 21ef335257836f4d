"""Find the tasks of a span of time among sessions, runs and calls, in a constant number of queries."""

import time
from collections import defaultdict
from datetime import datetime, timedelta

from django.db.models import Count, Max, Min, OuterRef, Q, Subquery

from approvals.models import (
    OPEN_RUNS,
    Action,
    AgentRun,
    AgentSession,
    Interrupt,
    Message,
    MessageKind,
    Role,
    SessionPrompt,
    Status,
)
from approvals.reports.ask_rate import ASKED
from approvals.reports.tasks.task import Asks, Task
from dashboard.database import clock
from dashboard.models import Agent
from workspaces.changes import changed_lines
from workspaces.models import Snapshot, Workspace

MOST = 50  # tasks in one answer, those with the newest signs of life
COUNTING_SECONDS = 0.5  # for counting lines in one answer; what is counted is cached
CLOSING = timedelta(minutes=5)  # after a task's end, in which the snapshot of its end may be taken
LET_THROUGH = (Status.APPROVED, Status.RUNNING, Status.SUCCEEDED, Status.FAILED, Status.UNCERTAIN)
COUNTS = {
    "calls": Count("pk"),
    "asked": Count("pk", filter=ASKED),
    "approved": Count("pk", filter=ASKED & Q(status__in=LET_THROUGH)),
    "denied": Count("pk", filter=Q(status=Status.DENIED)),
    "waiting": Count("pk", filter=Q(status=Status.PENDING)),
    "failed": Count("pk", filter=Q(status__in=[Status.FAILED, Status.UNCERTAIN])),
    "running": Count("pk", filter=Q(status=Status.RUNNING)),
}
ENDS = {"began_at": Min("created_at"), "last_at": Max("created_at"), "newest": Max("number")}


def tasks_of(
    caller, since: datetime, until: datetime | None = None, *, agent=None, workspace=None, most=MOST, one_each=False
) -> list[Task]:
    """Return the tasks with a sign of life in the span, the newest sign first, each with all of it since it began.

    `most`: how many at most; `one_each`: only the newest of each agent.

    A call belongs to the session that it names. Calls that name none are one task for each agent and workspace, which
    began with the first of them in the span.
    """
    found = _Gathering(caller, since, until, {"agent": agent, "workspace": workspace}, most)
    tasks = [*found.of_runs(), *found.of_sessions(), *found.of_calls()]
    tasks = sorted(tasks, key=lambda task: task.last_at, reverse=True)[:most]
    if one_each:
        newest = {task.agent.pk: task for task in reversed(tasks)}
        tasks = [task for task in tasks if newest[task.agent.pk] is task]
    _count_named(tasks, caller)
    _count_unnamed(tasks, found.calls())
    _add_calls(tasks, caller)
    _add_prompts(tasks)
    _add_words(tasks)
    _note_interrupts(tasks, caller)
    _add_lines(tasks)
    return tasks


class _Gathering:
    def __init__(self, caller, since, until, only: dict, most: int):
        self.caller, self.since, self.until, self.most = caller, since, until, most
        self.only = {name: value for name, value in only.items() if value is not None}
        self.now = clock.now()
        self.known: set[tuple] = set()  # (agent id, session of actions) of tasks that were found

    def _before(self, column: str) -> Q:
        return Q(**{f"{column}__lt": self.until}) if self.until else Q()

    def of_runs(self) -> list[Task]:
        """Return those of runs that Handrail started; a trial is nobody's task, and neither are its calls."""
        alive = Q(changed_at__gte=self.since) | Q(state__in=OPEN_RUNS)
        rows = AgentRun.objects.visible_to(self.caller).filter(alive, self._before("created_at"), **self.only)
        rows = rows.select_related("agent__owner", "workspace__team", "session", "started_by", "trial")
        rows = rows.annotate(said_pk=_newest_words("session")).order_by("-changed_at")[: self.most]
        rows = list(rows)
        self.known.update((run.agent_id, run.native_id) for run in rows if run.is_trial)
        return [self._of_run(run) for run in rows if not run.is_trial]

    def _of_run(self, run: AgentRun) -> Task:
        self.known.add((run.agent_id, run.native_id))
        last = max(run.changed_at, run.session.last_at) if run.session else run.changed_at
        ended = None if run.is_open else run.changed_at
        task = Task(run.agent, run.workspace, run.native_id, run.created_at, last, self.now, ended_at=ended, run=run)
        task.session, task.said_pk = run.session, run.said_pk
        task.said = "" if run.is_open else run.summary
        return task

    def of_sessions(self) -> list[Task]:
        """Return those of sessions that no other session and no run of the tasks has started."""
        rows = AgentSession.objects.visible_to(self.caller).filter(parent=None, last_at__gte=self.since, **self.only)
        rows = rows.filter(self._before("started_at")).select_related("agent__owner", "workspace__team")
        rows = rows.annotate(said_pk=_newest_words("pk")).order_by("-last_at")[: self.most]
        return [self._of_session(row) for row in rows if (row.agent_id, row.native_id) not in self.known]

    def _of_session(self, row: AgentSession) -> Task:
        self.known.add((row.agent_id, row.native_id))
        task = Task(row.agent, row.workspace, row.native_id, row.started_at, row.last_at, self.now, session=row)
        task.ended_at, task.said_pk = row.ended_at, row.said_pk
        return task

    def calls(self):
        """Return the calls of the span, in no order."""
        rows = Action.objects.visible_to(self.caller).filter(created_at__gte=self.since, **self.only)
        return rows.filter(self._before("created_at")).order_by()

    def of_calls(self) -> list[Task]:
        """Return those of calls that belong to no session that is known."""
        rows = self.calls().values("agent", "session", "workspace").annotate(**ENDS)
        found = list(rows.order_by("-last_at")[: 4 * self.most])
        named = {(row["agent"], row["session"]) for row in found if row["session"]} - self.known
        pairs = AgentSession.objects.filter(agent__in={each[0] for each in named}, native_id__in={n for _, n in named})
        known = self.known | set(pairs.values_list("agent", "native_id"))
        rest = [row for row in found if (row["agent"], row["session"]) not in known or not row["session"]][: self.most]
        agents = Agent.objects.select_related("owner").in_bulk({row["agent"] for row in rest})
        places = Workspace.objects.select_related("team").in_bulk({row["workspace"] for row in rest})
        return [self._of_calls(row, agents[row["agent"]], places.get(row["workspace"])) for row in rest]

    def _of_calls(self, row: dict, agent: Agent, workspace: Workspace | None) -> Task:
        task = Task(agent, workspace, row["session"], row["began_at"], row["last_at"], self.now)
        task.newest_number = row["newest"]
        return task


def _newest_words(session: str) -> Subquery:
    """Return the id of what the agent said last in a session; `session` is the column of its id."""
    said = Message.objects.filter(session=OuterRef(session), role=Role.ASSISTANT, kind=MessageKind.TEXT)
    return Subquery(said.order_by("-at", "-seq").values("pk")[:1])


def _asks(row: dict) -> Asks:
    return Asks(**{name: row[name] for name in Asks.__dataclass_fields__})


def _count_named(tasks: list[Task], caller):
    """Count all calls of the sessions that calls name, also those from before the span."""
    named = [task for task in tasks if task.native_id]
    pairs = {"agent__in": {task.agent.pk for task in named}, "session__in": {task.native_id for task in named}}
    rows = Action.objects.visible_to(caller).filter(**pairs).order_by().values("agent", "session")
    rows = rows.annotate(**COUNTS, **ENDS)
    counted = {(row["agent"], row["session"]): row for row in rows}
    for task in named:
        if row := counted.get((task.agent.pk, task.native_id)):
            task.asks, task.newest_number = _asks(row), row["newest"]
            task.began_at, task.last_at = min(task.began_at, row["began_at"]), max(task.last_at, row["last_at"])


def _count_unnamed(tasks: list[Task], calls):
    """Count the calls of the span that name no session, by agent and workspace."""
    unnamed = [task for task in tasks if not task.native_id and not task.session and not task.run]
    rows = calls.filter(session="", agent__in={task.agent.pk for task in unnamed}).values("agent", "workspace")
    counted = {(row["agent"], row["workspace"]): row for row in rows.annotate(**COUNTS)}
    for task in unnamed:
        task.asks = _asks(counted[task.agent.pk, task.workspace and task.workspace.pk])


def _add_calls(tasks: list[Task], caller):
    """Set the newest call of each task."""
    numbers = {task.newest_number for task in tasks} - {None}
    rows = Action.objects.visible_to(caller).filter(number__in=numbers).defer("envelope", "blocked", "result")
    calls = {(row.agent_id, row.number): row for row in rows}
    for task in tasks:
        task.newest = calls.get((task.agent.pk, task.newest_number))


def _add_prompts(tasks: list[Task]):
    """Set the first prompt of those without a session's title."""
    bare = [task for task in tasks if task.native_id and not task.run and not (task.session and task.session.title)]
    pairs = {"agent__in": {task.agent.pk for task in bare}, "session__in": {task.native_id for task in bare}}
    first: dict = {}
    for prompt in SessionPrompt.objects.filter(**pairs).order_by("at", "pk"):
        first.setdefault((prompt.agent_id, prompt.session), prompt.text)
    for task in bare:
        task.prompt = first.get((task.agent.pk, task.native_id), "")


def _add_words(tasks: list[Task]):
    """Set what the agent wrote last: in its conversation, else as the explanation of its newest call."""
    texts = dict(Message.objects.filter(pk__in={task.said_pk for task in tasks}).values_list("pk", "text"))
    for task in tasks:
        task.said = task.said or texts.get(task.said_pk, "") or (task.newest.reasoning if task.newest else "")


def _note_interrupts(tasks: list[Task], caller):
    active = Interrupt.objects.visible_to(caller).active(clock.now()).filter(agent__in={t.agent.pk for t in tasks})
    held = set(active.values_list("agent", "session"))
    for task in tasks:
        task.is_interrupted = bool(held & {(task.agent.pk, ""), (task.agent.pk, task.native_id)})


def _add_lines(tasks: list[Task]):
    """Set what differs between the last snapshot before a task began and the newest of the task."""
    placed = [task for task in tasks if task.workspace]
    wanted = [Subquery(rows.values("pk")[:1]) for task in placed for rows in _points_of(task)]
    points = defaultdict(list)
    for point in Snapshot.objects.filter(pk__in=wanted).defer("skipped").order_by("number"):
        points[point.workspace_id].append(point)
    deadline = time.monotonic() + COUNTING_SECONDS
    for task in placed:
        kept = points[task.workspace.pk]
        before = [point for point in kept if point.created_at <= task.began_at][-1:] or kept[:1]
        after = [point for point in kept if point.created_at <= _end_of(task)][-1:] or before
        if before:
            old, new = before[0].tree_hex, after[0].tree_hex
            task.lines = changed_lines.between(task.workspace.team_id, old, new, until=deadline)


def _end_of(task: Task) -> datetime:
    return task.ended_at + CLOSING if task.ended_at else task.now


def _points_of(task: Task):
    """Yield queries whose first rows are the snapshots around a task, and the first of its workspace."""
    rows = Snapshot.objects.filter(workspace=task.workspace.pk)
    yield rows.filter(created_at__lte=task.began_at).order_by("-number")
    yield rows.filter(created_at__lte=_end_of(task)).order_by("-number")
    yield rows.order_by("number")

"""An agent's day as its tasks: the calls of each by the hour, with who answered what a person was asked about."""

from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Prefetch
from django.utils import timezone

from approvals.models import Action, Decision, Status
from approvals.reports.ask_rate import WITHOUT_ASKING
from approvals.reports.tasks import Task

MOST_CALLS = 500  # of one day, the newest


@dataclass
class DayCall:
    """A call with its final decision, if a person answered it."""

    action: Action
    decision: Decision | None

    @property
    def was_asked(self) -> bool:
        by_policy = self.action.tier in WITHOUT_ASKING or self.action.grant_id is not None
        return self.decision is not None or not by_policy

    @property
    def stands_out(self) -> bool:
        """Whether it is shown: a person was asked, or it was denied or failed."""
        return self.was_asked or self.action.status in (Status.DENIED, Status.FAILED, Status.UNCERTAIN)


@dataclass
class Hour:
    """The calls that began in one hour of the viewer's clock, the first one first."""

    begin: datetime
    calls: list[DayCall] = field(default_factory=list)

    @property
    def outstanding(self) -> list[DayCall]:
        return [call for call in self.calls if call.stands_out]

    @property
    def routine(self) -> list[DayCall]:
        return [call for call in self.calls if not call.stands_out]


@dataclass
class DayTask:
    """A task with its calls of the day; `task` is None for calls of tasks that are not among the newest."""

    task: Task | None
    hours: list[Hour] = field(default_factory=list)


def day_tasks(actions, tasks: list[Task]) -> tuple[list[DayTask], bool]:
    """Return the tasks with calls among these actions, the newest first, and whether older calls were left out."""
    final = Prefetch("decisions", Decision.objects.filter(final=True).select_related("user"))
    rows = actions.select_related("workspace__team").prefetch_related(final).defer("envelope", "blocked")
    found = list(rows.order_by("-created_at", "-number")[: MOST_CALLS + 1])
    groups: dict = {}
    for action in reversed(found[:MOST_CALLS]):
        call = DayCall(action, next(iter(action.decisions.all()), None))
        hour = timezone.localtime(action.created_at).replace(minute=0, second=0, microsecond=0)
        hours = groups.setdefault(_key_of(action), {})
        hours.setdefault(hour, Hour(hour)).calls.append(call)
    known = {_key(task.native_id, task.workspace and task.workspace.pk): task for task in tasks}
    shown = [DayTask(known.get(key), list(hours.values())) for key, hours in groups.items()]
    return sorted(shown, key=lambda each: each.hours[-1].calls[-1].action.number, reverse=True), len(found) > MOST_CALLS


def _key_of(action: Action) -> tuple:
    return _key(action.session, action.workspace_id)


def _key(session: str, workspace) -> tuple:
    """Return what the calls of one task have in common: the session, or without one the workspace."""
    return (session, None) if session else ("", workspace)

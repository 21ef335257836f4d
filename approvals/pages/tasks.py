"""The page *Tasks*: what agents work on now, and what they worked on in a span of time."""

from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext, gettext_lazy
from django.views.decorators.http import require_safe

from approvals.pages.given_tasks import open_tasks
from approvals.reports.tasks import MOST, Task, TaskState, tasks_of
from approvals.reports.tasks.task import OPEN_FOR
from dashboard.database import clock
from dashboard.models import Agent
from dashboard.web import spans
from dashboard.web.pages import as_uuid, parameters, signed_in, without

SHOWS = {
    "": gettext_lazy("All"),
    "open": gettext_lazy("Now"),
    "review": gettext_lazy("To review"),
    "failed": gettext_lazy("Failed"),
    "done": gettext_lazy("Done"),
}
STATES = {
    "review": {TaskState.REVIEW},
    "failed": {TaskState.FAILED},
    "done": {TaskState.DONE, TaskState.STOPPED},
}


@signed_in
@require_safe
def tasks(request):
    """List the tasks of a span of time: those that go on first, then the others, the newest sign of life first."""
    caller, now = request.caller, clock.now()
    span = spans.span_of(request, now)
    chosen = parameters(request, "show", "agent", "workspace")
    agents, named = Agent.objects.visible_to(caller), chosen["agent"]
    agent = get_object_or_404(agents, pk=as_uuid(named)) if named else None
    since = min(span.since, now - OPEN_FOR) if span.until is None else span.since
    found = tasks_of(caller, since, span.until, agent=agent)
    found = [task for task in found if not chosen["workspace"] or is_in(task, chosen["workspace"])]
    shown = [task for task in found if _is_shown(task, chosen["show"])]
    context = {
        "nav": "tasks",
        "given": [] if chosen["agent"] or chosen["workspace"] else open_tasks(caller, MOST),
        "may_give": any(caller.can("start_agents", team_id) for team_id in caller.team_ids),
        "span": span,
        "spans": spans.links(request, span, now),
        "shows": [_show(request, name, chosen["show"], found) for name in SHOWS],
        "groups": _groups(shown),
        "agent": agent,
        "workspace": chosen["workspace"],
        "is_cut": len(found) == MOST,
        "most": MOST,
        "everything": f"?{without(request, 'agent', 'workspace')}",
    }
    return render(request, "approvals/tasks.html", context)


def is_in(task: Task, key: str) -> bool:
    return task.workspace is not None and task.workspace.key == key


def _is_shown(task: Task, show: str) -> bool:
    if show == "open":
        return task.is_open
    return task.state in STATES[show] if show in STATES else True


def _show(request, name: str, chosen: str, found: list[Task]) -> tuple:
    rest = without(request, "show")
    query = "&".join(part for part in (f"show={name}" if name else "", rest) if part)
    return f"?{query}", SHOWS[name], name == chosen, sum(_is_shown(task, name) for task in found)


def _groups(tasks: list[Task]) -> list[tuple[str, str, list[Task]]]:
    """Return (id, title, tasks) of those that go on, by their state, and of the others."""
    order = list(TaskState)
    now = sorted((task for task in tasks if task.is_open), key=lambda task: order.index(task.state))
    others = [task for task in tasks if not task.is_open]
    groups = [("now", gettext("Now"), now), ("earlier", gettext("Earlier"), others)]
    return [group for group in groups if group[2]]

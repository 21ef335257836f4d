"""Tasks over HTTP: give one, see how its attempts stand, choose one, cancel."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from django.urls import reverse
from ninja import Query, Router, Schema, Status
from pydantic import Field

from approvals.agent_runs import attempts, requests
from approvals.agent_runs.code_host import mending
from approvals.models import Task, TaskThread
from approvals.models.tasks import MAX_ATTEMPTS, MAX_SOURCE, MAX_TITLE
from approvals.reports.standing import AttemptStands, Standing, TaskStands, standing_of
from dashboard.problems import not_allowed
from dashboard.web.api_base import PROBLEMS
from dashboard.web.lookup import page_of
from dashboard.web.pages import as_uuid
from workspaces.api.lookup import team_of
from workspaces.api.schemas import Strict
from workspaces.programs.checks import CheckState

router = Router(tags=["tasks"])
STATES = tuple(str(each) for each in Standing)


class NewAttempt(Strict):
    agent: str = Field("", max_length=60, description="a program of the environment; empty: whoever works there")
    model: str = Field("", max_length=100)


class Budget(Strict):
    minutes: int | None = Field(None, ge=1, le=requests.MAX_MINUTES)
    tokens: int | None = Field(None, ge=1, le=requests.MAX_TOKENS)
    cost: float | None = Field(None, gt=0, le=float(requests.MAX_COST), description="at the team's prices")


class NewTask(Strict):
    title: str = Field(max_length=MAX_TITLE)
    text: str = Field("", max_length=requests.MAX_TASK)
    repository: str = Field("", max_length=500, description="empty: that of the environment")
    base: str = Field("", max_length=200, description="a branch, tag or commit; empty: the default branch")
    environment: str = Field("default", max_length=80)
    attempts: list[NewAttempt] = Field(default_factory=lambda: [NewAttempt()], min_length=1, max_length=MAX_ATTEMPTS)
    budget: Budget | None = Field(None, description="of each attempt")
    source: str = Field("", max_length=MAX_SOURCE, description="where it comes from; one task for each")
    reviewer: NewAttempt | None = Field(None, description="comments on the lines of each attempt, and merges nothing")


class WhichAttempt(Strict):
    attempt: int | str = Field(description="its number, or the key of its workspace")


class MaybeAttempt(Strict):
    attempt: int | str | None = Field(None, description="without it all of them, and the task is open again")


class AttemptCheckOut(Schema):
    name: str
    state: Annotated[str, Field(description=", ".join(CheckState.values))]


class AttemptOut(Schema):
    number: int
    workspace: str = Field(description="its key")
    agent: str = Field(description="empty: whoever works there")
    model: str
    agent_run: UUID | None
    state: Annotated[str, Field(description=", ".join(STATES[:7]))]
    checks: list[AttemptCheckOut]
    added: int | None = Field(description="lines since it began; null if that is not known yet")
    removed: int | None
    files: int | None
    cost: float
    seconds: int = Field(description="for which its agent worked")
    asks: int = Field(description="calls for which a person was asked")
    waiting: int = Field(description="of those, the ones that wait now")
    findings: int = Field(description="of the reviewer, which are drafts of comments on lines")
    review_problem: str = Field(description="why there was no review, or only a part of it")
    chosen: bool
    in_trash_until: datetime | None


class HostCheckOut(Schema):
    name: str
    state: str = Field(description="passed, failed, running")
    url: str


class ThreadOut(Schema):
    issue: int | None = Field(description="its number at the host")
    pull_request: str = Field(description="its address; empty: none yet")
    state: str = Field(description="of the pull request: open, merged, closed")
    checks: list[HostCheckOut]
    follows: bool = Field(description="whether failed checks and review comments go to the agent")
    rounds: int = Field(description="how often some went")
    problem: str = Field(description="why the host could not be read, or the agent not be told")


class TaskOut(Schema):
    id: UUID
    title: str
    text: str
    source: str
    repository: str
    base: str
    commit: str = Field(description="that all attempts began with; empty until the first was cloned")
    environment: str
    budget: dict
    reviewer: dict = Field(description="{agent, model?}; empty without one")
    asked_by: str | None
    state: Annotated[str, Field(description=", ".join(STATES))]
    chosen: int | None = Field(description="the number of an attempt")
    created_at: datetime
    changed_at: datetime
    url: str
    thread: ThreadOut | None = Field(description="at the code host; null if it is in none")
    attempts: list[AttemptOut]


class TaskPage(Schema):
    tasks: list[TaskOut]
    cursor: str | None


@router.get("/tasks", response={200: TaskPage} | PROBLEMS)
def list_tasks(
    request,
    source: Annotated[str | None, Query(max_length=MAX_SOURCE)] = None,
    cursor: str | None = None,
):
    """List tasks, the newest first; lines are those of the newest snapshots."""
    rows = Task.objects.visible_to(request.auth).select_related("asked_by")
    rows = rows.filter(source=source) if source else rows
    page = page_of(rows, cursor)
    return Status(200, {"tasks": [_out(each) for each in standing_of(page.rows)], "cursor": page.cursor})


@router.post("/tasks", response={200: TaskOut, 201: TaskOut} | PROBLEMS)
def give_task(request, wish: NewTask):
    """Give a task: each attempt is a new workspace, and all begin with the same commit.

    200 with the task that is there if one has this `source`. 422 names the field that is wrong.
    """
    caller = request.auth
    if not any(caller.is_person and caller.can("start_agents", team_id) for team_id in caller.team_ids):
        raise not_allowed("Only a lead or admin can give a task.")
    task, is_new = attempts.make(team_of(request), wish.model_dump(), caller=caller)
    return Status(201 if is_new else 200, _shown(task))


@router.get("/tasks/{task_id}", response={200: TaskOut} | PROBLEMS)
def get_task(request, task_id: str):
    """Return a task with its attempts; lines are those of the files as they are now."""
    return Status(200, _shown(_find(request, task_id)))


@router.post("/tasks/{task_id}/choose", response={200: TaskOut} | PROBLEMS)
def choose_attempt(request, task_id: str, which: WhichAttempt):
    """Keep one attempt and throw the others away, into the trash."""
    return _answered(request, task_id, attempts.choose, which.attempt)


@router.post("/tasks/{task_id}/throw-away", response={200: TaskOut} | PROBLEMS)
def throw_attempt_away(request, task_id: str, which: WhichAttempt):
    """Throw one attempt away, into the trash."""
    return _answered(request, task_id, attempts.throw_away, which.attempt)


@router.post("/tasks/{task_id}/bring-back", response={200: TaskOut} | PROBLEMS)
def bring_attempt_back(request, task_id: str, which: MaybeAttempt | None = None):
    """Bring an attempt back from the trash, or all of them: a choice and a cancellation are undone with that."""
    return _answered(request, task_id, attempts.bring_back, which.attempt if which else None)


@router.post("/tasks/{task_id}/cancel", response={200: TaskOut} | PROBLEMS)
def cancel_task(request, task_id: str):
    """Stop the agents of a task and throw its attempts away, into the trash."""
    return _answered(request, task_id, attempts.cancel)


@router.post("/tasks/{task_id}/merged", response={200: TaskOut} | PROBLEMS)
def record_merge(request, task_id: str):
    """Record that the chosen attempt was merged: the task ends, and its workspace is archived."""
    return _answered(request, task_id, attempts.merged)


@router.post("/tasks/{task_id}/pull-request", response={200: TaskOut} | PROBLEMS)
def open_task_pull_request(request, task_id: str):
    """Push the chosen attempt and open its pull request, whose failed checks and reviews go to its agent from then on.

    A pull request that is open gets the new commits.
    """
    return _answered(request, task_id, mending.open_pull_request)


@router.post("/tasks/{task_id}/enough", response={200: TaskOut} | PROBLEMS)
def send_no_more(request, task_id: str):
    """Send the agent no more checks and review comments of the pull request."""
    return _answered(request, task_id, mending.enough)


@router.post("/tasks/{task_id}/follow", response={200: TaskOut} | PROBLEMS)
def send_again(request, task_id: str):
    """Send the agent failed checks and review comments of the pull request, also those that came meanwhile."""
    return _answered(request, task_id, mending.follow_again)


def _find(request, task_id: str) -> Task:
    return attempts.find(request.auth, as_uuid(task_id))


def _answered(request, task_id: str, do, *given) -> Status:
    task = _find(request, task_id)
    do(task, *given, caller=request.auth)
    return Status(200, _shown(_find(request, task_id)))


def _shown(task: Task) -> dict:
    return _out(standing_of([task], live=True)[0])


def _out(stands: TaskStands) -> dict:
    task = stands.task
    names = ("id", "title", "text", "source", "repository", "base", "commit", "environment", "budget", "reviewer")
    return {name: getattr(task, name) for name in (*names, "created_at", "changed_at")} | {
        "asked_by": task.asked_by.get_username() if task.asked_by else None,
        "state": str(stands.state),
        "chosen": stands.chosen.attempt.number if stands.chosen else None,
        "url": reverse("task", args=[task.pk]),
        "thread": _thread(stands.thread) if stands.thread else None,
        "attempts": [_attempt(each) for each in stands.attempts],
    }


def _thread(thread: TaskThread) -> dict:
    return {
        "issue": thread.number,
        "pull_request": thread.pull.url if thread.pull else "",
        "state": thread.state,
        "checks": thread.checks,
        "follows": thread.follower_id is not None,
        "rounds": thread.rounds,
        "problem": thread.problem,
    }


def _attempt(stands: AttemptStands) -> dict:
    attempt, lines, run = stands.attempt, stands.lines, stands.attempt.run
    return {
        "number": attempt.number,
        "workspace": stands.workspace.key,
        "agent": run.program_name if run else "",
        "model": run.model if run else "",
        "agent_run": run.pk if run else None,
        "state": str(stands.state),
        "checks": [{"name": check.name, "state": str(check.state)} for check in stands.checks],
        "added": lines.additions if lines else None,
        "removed": lines.deletions if lines else None,
        "files": lines.files if lines else None,
        "cost": stands.cost,
        "seconds": int(stands.seconds),
        "asks": stands.asks,
        "waiting": stands.waiting,
        "findings": attempt.findings,
        "review_problem": attempt.review_problem,
        "chosen": attempt.chosen,
        "in_trash_until": stands.workspace.purge_at if stands.workspace.trashed_at else None,
    }

"""Make a task with its attempts: each is a workspace of the environment that begins with the same commit."""

from approvals import agent_runs
from approvals.agent_runs import requests
from approvals.models import Task, TaskAttempt
from approvals.models.tasks import MAX_ATTEMPTS, MAX_SOURCE, MAX_TITLE
from dashboard.database import clock
from dashboard.door.entering import refuse_when_stopped
from dashboard.models import Event, Team
from dashboard.people.access import Caller
from dashboard.problems import invalid, not_allowed, not_found
from workspaces import lifecycle
from workspaces.models import Environment, Workspace
from workspaces.provisioning import eligibility

BUDGETS = ("minutes", "tokens", "cost")


def find(caller: Caller, task_id) -> Task:
    """Return a task that the caller may see. Problem 404."""
    rows = Task.objects.visible_to(caller).select_related("team", "asked_by")
    found = rows.filter(pk=task_id).first() if task_id else None
    if found is None:
        raise not_found("task")
    return found


def require(caller: Caller, team):
    """Problem 403 unless the caller may give tasks in the team, and answer for their attempts."""
    if not caller.is_person or not caller.can("start_agents", team):
        raise not_allowed("Only a lead or admin can give a task, or decide on its attempts.")


def make(team: Team, wish: dict, *, caller: Caller) -> tuple[Task, bool]:
    """Make a task and its attempts, all or nothing; return (task, True if it is new).

    `wish`: {title, text?, repository?, base?, environment, attempts: [{agent?, model?}], budget?, source?, reviewer?:
    {agent, model?}}. A task that has this `source` is returned as it is. `budget` {minutes?, tokens?, cost?} is that of
    each attempt. Problem 403, 409, 422 with its `field`.
    """
    require(caller, team)
    refuse_when_stopped(team.pk)
    fields = _fields(wish)
    if known := _with_source(team, fields["source"]):
        return known, False
    environment = eligibility.find_environment(team, wish.get("environment") or "default", caller)
    asked = _source(environment, wish)
    source = lifecycle.check_source(team, asked)
    fields |= {"environment": environment.name, "repository": asked.get("git", ""), "base": asked.get("ref", "")}
    jobs = [_job(environment, team, each, fields) for each in _attempts(wish)]
    fields |= {"reviewer": _reviewer(environment, team, wish, fields)}
    with Team.objects.turn(team.pk):
        if known := _with_source(team, fields["source"]):
            return known, False
        now = clock.now()
        task = Task.objects.create(team=team, asked_by=caller.user, created_at=now, changed_at=now, **fields)
        key = requests.key_for(task.title, "task")
        for number, job in enumerate(jobs, 1):
            _begin(task, number, f"{key}-{number}", job, source, caller)
        record(task, caller.actor, "task.created", attempts=len(jobs), source=task.source)
    return task, True


def _with_source(team: Team, source: str) -> Task | None:
    rows = Task.objects.filter(team=team, source=source) if source else Task.objects.none()
    return rows.select_related("team", "asked_by").first()


def _fields(wish: dict) -> dict:
    """Return the columns of a task that its wish alone decides. Problem 422."""
    title = " ".join((wish.get("title") or "").split())
    if not title or len(title) > MAX_TITLE or not title.isprintable():
        raise invalid(f"Give a title of at most {MAX_TITLE} characters, on one line.", field="title")
    text = (wish.get("text") or "").replace("\r\n", "\n").replace("\0", "␀").strip()
    if len(title) + 2 + len(text) > requests.MAX_TASK:
        raise invalid(f"Give a text of at most {requests.MAX_TASK - MAX_TITLE:,} characters.", field="text")
    source = (wish.get("source") or "").strip()
    if len(source) > MAX_SOURCE or not source.isprintable():
        raise invalid(f"A source is one line of at most {MAX_SOURCE} characters.", field="source")
    budget = {name: wish["budget"][name] for name in BUDGETS if (wish.get("budget") or {}).get(name)}
    return {"title": title, "text": text, "source": source, "budget": budget}


def _source(environment: Environment, wish: dict) -> dict:
    """Return the source of the attempts' workspaces: {git, ref}, or {} without a repository. Problem 422."""
    own = eligibility.own_source(environment)
    repository, base = (wish.get("repository") or "").strip() or own.get("git", ""), (wish.get("base") or "").strip()
    if not repository and base:
        raise invalid(f"Name the repository: the environment {environment.name} has none.", field="repository")
    if not repository:
        return {}
    return {"git": repository, "ref": base or (own["ref"] if repository == own.get("git") else "")}


def _attempts(wish: dict) -> list[dict]:
    given = wish.get("attempts") or [{}]
    if len(given) > MAX_ATTEMPTS:
        raise invalid(f"A task has at most {MAX_ATTEMPTS} attempts.", field="attempts")
    return given


def _job(environment: Environment, team: Team, attempt: dict, fields: dict) -> dict | None:
    """Return the wish for the run of an attempt, None for one without an agent. Problem 409, 422."""
    if not attempt.get("agent"):
        return None
    whole = f"{fields['title']}\n\n{fields['text']}".strip()
    job = {"program": attempt["agent"], "model": attempt.get("model") or "", "task": whole}
    if fields["source"].startswith(("https://", "http://")):
        job["ticket_url"] = fields["source"]
    job |= {f"budget_{name}": value for name, value in fields["budget"].items()}
    requests.check(environment, team, job)
    return job


def _reviewer(environment: Environment, team: Team, wish: dict, fields: dict) -> dict:
    """Return the checked reviewer of a wish, {} without one. Problem 409, 422."""
    given = wish.get("reviewer") or {}
    if not given.get("agent"):
        return {}
    _job(environment, team, given, fields)
    return {name: given[name] for name in ("agent", "model") if given.get(name)}


def _begin(task: Task, number: int, key: str, job: dict | None, source: dict, caller: Caller):
    """Make the workspace of an attempt, and start its agent if it has one."""
    wish = {"environment": task.environment, "description": task.title, "fresh": True}
    workspace = lifecycle.create_new(task.team, key, caller=caller, wish=wish, source=source)
    attempt = TaskAttempt.objects.create(task=task, number=number, workspace=workspace)
    if job is not None:
        attempt.run = agent_runs.start(workspace, job, caller=caller)
        attempt.save(update_fields=["run"])


def agreed_commit(workspace: Workspace, commit: str) -> str:
    """Return the commit that all attempts at a task begin with, which the first clone decides; else `commit`."""
    task_id = TaskAttempt.objects.filter(workspace=workspace).values_list("task", flat=True).first()
    if task_id is None:
        return commit
    Task.objects.filter(pk=task_id, commit="").update(commit=commit)
    return Task.objects.values_list("commit", flat=True).get(pk=task_id)


def tasks_of(workspaces: list[Workspace]) -> dict:
    """Return {id of a workspace: id of the task at which it is an attempt}; others have no entry."""
    return dict(TaskAttempt.objects.filter(workspace__in=workspaces).values_list("workspace", "task"))


def record(task: Task, by, verb: str, **data):
    data = {"title": task.title} | {name: value for name, value in data.items() if value not in ("", None)}
    Event.objects.record(task.team_id, actor=by, verb=verb, subject=task, data=data)

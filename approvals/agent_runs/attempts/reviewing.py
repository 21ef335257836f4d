"""Let a reviewer agent look at each attempt whose agent is done. It works in a fork, so it changes and merges nothing.

Its findings become drafts of comments on lines, of the person who gave the task: they decide what the agent gets.
`step` compares rows and may be called at any time, twice, or late.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings
from django.db import transaction
from django.db.models import Q

from approvals import agent_runs
from approvals.agent_runs import requests
from approvals.agent_runs.following import responsible
from approvals.models import OPEN_RUNS, AgentRunState, TaskAttempt
from dashboard.database import clock
from dashboard.models import Actor, Team
from dashboard.people.access import Caller
from dashboard.problems import Problem
from workspaces import lifecycle
from workspaces.models import Operation, State

LABEL = "Before the review"
MAX_FINDINGS = 50
MAX_TEXT, MAX_PATH = 900, 500  # characters of a finding
# pattern: of a summary of at most program.MAX_SAID characters
BLOCK = re.compile(r"```json\s*(.*?)```", re.DOTALL)
ASKS = """Review what was done here for this task: {title}

{text}

Compare with the commit {commit} (git diff {commit}, and git status for what is not committed). Look for mistakes,
missing tests and what the task did not ask for. Change no files, commit nothing and push nothing: you work on a copy
that is thrown away.

End your answer with one block of JSON, a list of findings, empty if there are none:

```json
[{{"path": "src/till.py", "line": 7, "text": "This loses a cent when …"}}]
```

`line` is a line of the file as it is now."""


@dataclass(frozen=True)
class Finding:
    """What a reviewer says of one line, numbered from 1, of a file as it is now."""

    path: str
    line: int
    text: str


Write = Callable[[TaskAttempt, list[Finding], Caller], int]  # returns how many were written


def to_review():
    """Return the attempts on this host whose agent is done and that their task's reviewer has not begun to look at."""
    rows = TaskAttempt.objects.filter(task__end="", thrown_at=None, run__state=AgentRunState.DONE, review=None)
    rows = rows.exclude(task__reviewer={}).filter(reviewed_at=None, workspace__trashed_at=None)
    return rows.filter(workspace__runner__host=settings.HANDRAIL_HOST_NAME)


def reviewed():
    """Return the attempts whose review has ended, and was not taken yet."""
    return TaskAttempt.objects.filter(review__isnull=False, reviewed_at=None).exclude(review__state__in=OPEN_RUNS)


def step(write: Write) -> int:
    """Begin the reviews that are due, and take what those said that have ended; return at how many was looked."""
    rows = [*to_review().values_list("pk", "task__team"), *reviewed().values_list("pk", "task__team")]
    for pk, team_id in rows:
        with transaction.atomic():
            Team.objects.take_turn(team_id)
            if attempt := _row(to_review(), pk):
                _begin(attempt)
            elif attempt := _row(reviewed(), pk):
                _take(attempt, write)
    return len(rows)


def _row(rows, pk) -> TaskAttempt | None:
    about = ("task", "run__started_by", "workspace__team", "workspace__environment", "workspace__head")
    return rows.select_related(*about, "review__workspace").filter(pk=pk).first()


def _begin(attempt: TaskAttempt):
    """Take a snapshot of what the agent did, then start the reviewer in a fork of it."""
    workspace, head = attempt.workspace, attempt.workspace.head
    if Operation.objects.open().filter(Q(exclusive=True) | Q(kind="snapshot"), workspace=workspace).exists():
        return
    try:
        with transaction.atomic():
            caller = responsible(attempt.run)
            by = Actor(caller.actor.type, caller.actor.id, f"{caller.actor.label} (review)"[:200])
            is_old = head is None or head.created_at < attempt.run.changed_at
            if workspace.state == State.READY and is_old and not _was_asked(attempt):
                lifecycle.snapshot(workspace, by=by, label=LABEL)
                return
            key = requests.key_for(f"review-{attempt.task.title}"[:28], "review")
            copy = lifecycle.fork(workspace, key, caller=caller, number=head and head.number)
            attempt.review = agent_runs.start(copy, _job(attempt), caller=caller)
            attempt.save(update_fields=["review"])
    except Problem as problem:
        _over(attempt, problem.detail)


def _was_asked(attempt: TaskAttempt) -> bool:
    """Return whether a snapshot was asked for since the agent was done; one that failed is not asked for again."""
    asked = Operation.objects.filter(workspace=attempt.workspace, kind="snapshot")
    return asked.filter(created_at__gte=attempt.run.changed_at).exists()


def _job(attempt: TaskAttempt) -> dict:
    task = attempt.task
    asked = ASKS.format(title=task.title, text=task.text, commit=task.commit or "that the work began with")
    job = {"program": task.reviewer["agent"], "model": task.reviewer.get("model") or "", "task": asked}
    return job | {f"budget_{name}": value for name, value in task.budget.items()}


def _take(attempt: TaskAttempt, write: Write):
    """Take what the reviewer found, and throw its copy away."""
    review = attempt.review
    problem = "" if review.state == AgentRunState.DONE else f"The review ended early. {review.reason}".strip()
    try:
        with transaction.atomic():
            caller = responsible(review)
            attempt.findings = write(attempt, findings_in(review.summary), caller)
            if review.state == AgentRunState.DONE:
                agent_runs.accept(review, caller=caller)  # nobody has to see to it
            if not review.workspace.trashed_at:
                lifecycle.trash(review.workspace, by=caller.actor)
    except Problem as refused:
        problem = refused.detail
    _over(attempt, problem)


def _over(attempt: TaskAttempt, problem: str):
    attempt.reviewed_at, attempt.review_problem = clock.now(), problem[:500]
    attempt.save(update_fields=["findings", "reviewed_at", "review_problem"])


def findings_in(said: str) -> list[Finding]:
    """Return the findings in the last block of JSON of an answer; what has another shape is left out."""
    blocks = BLOCK.findall(said)
    try:
        given = json.loads(blocks[-1]) if blocks else []
    except ValueError:
        return []
    found = [_finding(each) for each in given[:MAX_FINDINGS]] if isinstance(given, list) else []
    return [each for each in found if each]


def _finding(given) -> Finding | None:
    if not isinstance(given, dict):
        return None
    path, line, text = (given.get(name) for name in ("path", "line", "text"))
    if not isinstance(path, str) or not isinstance(line, int) or not isinstance(text, str):
        return None
    path = path.removeprefix("/workspace/").removeprefix("./")
    return Finding(path[:MAX_PATH], line, text[:MAX_TEXT]) if path and line > 0 and text.strip() else None


def is_review(workspace) -> bool:
    """Return whether a workspace is the copy in which a reviewer looks: nothing is pushed or merged from it."""
    return TaskAttempt.objects.filter(review__workspace=workspace).exists()

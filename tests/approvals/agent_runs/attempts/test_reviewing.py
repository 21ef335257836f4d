"""A reviewer agent looks at each attempt in a copy: its findings land on lines as drafts, and it can push nothing."""

import json

import pytest

from approvals.agent_runs.attempts.reviewing import Finding, findings_in
from approvals.models import AgentRun, LineComment, TaskAttempt
from approvals.tasks import follow_agents
from dashboard.database import clock
from dashboard.problems import Problem
from tests.pages.conftest import keep_tree
from workspaces.models import Runner, Snapshot, State, Workspace
from workspaces.services import git_export

from .conftest import up

BASE, DONE = {"till.py": "a = 1\nb = 2\n"}, {"till.py": "a = 1\nb = 3\nc = 4\n"}
FOUND = [
    {"path": "/workspace/till.py", "line": 2, "text": "This loses a cent."},
    {"path": "till.py", "line": 900, "text": "There is no such line."},
    {"path": "other.py", "line": 1, "text": "There is no such file."},
    {"path": "till.py"},
]


@pytest.fixture
def attempt(give, settings, team, tmp_path):
    """An attempt whose agent has changed till.py and is done, of a task with a reviewer."""
    wish = {"attempts": [{"agent": "claude-code", "model": "claude-x"}]}
    up(give(**wish, reviewer={"agent": "claude-code", "model": "claude-x"}))
    here, place = Runner.objects.create(host=settings.HANDRAIL_HOST_NAME), TaskAttempt.objects.get().workspace
    trees = [keep_tree(team, tmp_path / f"tree{at}", files) for at, files in enumerate((BASE, DONE))]
    Snapshot.objects.filter(workspace=place).update(tree=trees[0])
    about = {"workspace": place, "number": 2, "tree": trees[1], "kind": "manual", "entries": 1, "bytes": 1}
    head = Snapshot.objects.create(**about, added_bytes=1, created_at=clock.now())
    fields = {"state": State.STOPPED, "runner": here, "head": head, "next_snapshot": 3}
    Workspace.objects.filter(pk=place.pk).update(**fields)
    AgentRun.objects.update(state="done", changed_at=clock.now())
    return TaskAttempt.objects.get()


def reviewed(attempt, summary: str, **more):
    attempt.refresh_from_db()
    AgentRun.objects.filter(pk=attempt.review_id).update(state="done", summary=summary, **more)
    follow_agents()
    attempt.refresh_from_db()


def test_its_findings_are_drafts_on_the_lines_of_the_attempt(attempt, lena):
    follow_agents()
    follow_agents()
    attempt.refresh_from_db()
    review = attempt.review
    assert review.workspace.forked_from_id == attempt.workspace_id
    assert "Review what was done here for this task: Mend the till" in review.task
    assert AgentRun.objects.count() == 2
    reviewed(attempt, f"I looked.\n\n```json\n{json.dumps(FOUND)}\n```\n")
    draft = LineComment.objects.get()
    assert (draft.user, draft.workspace, draft.is_draft) == (lena, attempt.workspace, True)
    assert (draft.path, draft.line, draft.quote) == ("till.py", 2, "b = 3")
    assert draft.text == "claude-code (review): This loses a cent."
    assert (attempt.findings, attempt.review_problem) == (1, "")
    follow_agents()
    assert LineComment.objects.count() == 1


def test_nothing_is_pushed_from_its_copy(attempt):
    follow_agents()
    attempt.refresh_from_db()
    copy = attempt.review.workspace
    Workspace.objects.filter(pk=copy.pk).update(source={"git": "https://git.example.org/x/shop.git"})
    copy.refresh_from_db()
    with pytest.raises(Problem, match="the copy of a reviewer"):
        git_export.check_push(copy, "main")


def test_a_review_that_failed_says_so(attempt):
    follow_agents()
    attempt.refresh_from_db()
    AgentRun.objects.filter(pk=attempt.review_id).update(state="failed", reason="The model refused.")
    follow_agents()
    attempt.refresh_from_db()
    assert attempt.review_problem == "The review ended early. The model refused."
    assert not LineComment.objects.exists()


def test_a_task_without_a_reviewer_has_no_review(attempt):
    attempt.task.reviewer = {}
    attempt.task.save()
    follow_agents()
    attempt.refresh_from_db()
    assert attempt.review is None


def test_a_reviewer_that_the_environment_lacks_is_refused(give):
    given = give(422, reviewer={"agent": "nobody"})
    assert given["field"] == "program"


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("no block", []),
        ("```json\n[}\n```", []),
        ('```json\n{"path": "a"}\n```', []),
        ('```json\n[]\n```\nmore\n```json\n[{"path": "./a", "line": 1, "text": "x"}]\n```', [Finding("a", 1, "x")]),
        ('```json\n[{"path": "a", "line": 0, "text": "x"}, {"path": "a", "line": 1, "text": " "}]\n```', []),
    ],
)
def test_only_findings_of_the_asked_shape_are_taken(said, found):
    assert findings_in(said) == found

"""Tasks over the API, with rows and without a runner."""

import subprocess
from pathlib import Path

import pytest

from approvals.models import TaskAttempt
from tests.approvals.agent_runs.conftest import installed, workspace  # noqa: F401 - fixtures
from workspaces.models import Operation, Phase, Snapshot, State, Workspace


@pytest.fixture
def lead(api, token_of, lena):
    """`lead("POST", "/tasks", {...})`: (status, JSON) of a call by a lead."""
    return calls(api(token_of(lena)))


def calls(client):
    def call(method, path, body=None):
        options = {"data": body, "content_type": "application/json"} if body is not None else {}
        answer = getattr(client, method.lower())(f"/api/v1{path}", **options)
        return answer.status_code, answer.json()

    return call


@pytest.fixture
def sources(settings, tmp_path_factory):
    """The path of a folder that may be cloned."""
    folder = tmp_path_factory.mktemp("sources")
    settings.HANDRAIL_LOCAL_SOURCES = [folder.parent]
    return str(folder)


@pytest.fixture
def repository(sources):
    """A git repository with a file till.txt on the branch main."""
    folder = Path(sources)
    subprocess.run(["git", "init", "-q", "-b", "main", sources], check=True)
    commit(folder, "first\n")
    return folder


def commit(repository: Path, text: str):
    git = ["git", "-C", str(repository), "-c", "user.name=T", "-c", "user.email=t@example.org"]
    (repository / "till.txt").write_text(text)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "a change"], check=True)


@pytest.fixture
def give(lead, workspace, sources):  # noqa: F811
    """`give(attempts=[{}, {}])`: a task that was given, as JSON."""

    def given(status=201, **more):
        wish = {"title": "Mend the till", "text": "It rounds wrongly.", "repository": sources, "base": "main"}
        wish |= {"environment": "default", "attempts": [{}, {}]} | more
        answer = lead("POST", "/tasks", wish)
        assert answer[0] == status, answer
        return answer[1]

    return given


def places(task: dict) -> list[Workspace]:
    rows = TaskAttempt.objects.filter(task=task["id"]).select_related("workspace__environment")
    return [each.workspace for each in rows]


def up(task: dict) -> list[Workspace]:
    """The workspaces of a task, made as the runner makes them, each with the snapshot after setup."""
    Operation.objects.filter(kind="create").update(phase=Phase.SETTLED, outcome={"ok": True})
    found = places(task)
    for place in found:
        about = {"workspace": place, "number": 1, "tree": b"\1" * 32, "kind": "setup", "entries": 1, "bytes": 1}
        place.head = place.baseline = Snapshot.objects.create(**about, added_bytes=1, created_at=place.created_at)
        place.state = State.STOPPED
        place.save()
    return found

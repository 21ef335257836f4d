"""A code host on this machine whose repository gives tasks, with rows and without a runner."""

import pytest

from approvals.agent_runs.code_host import accounts, following, repositories, starting
from approvals.models import HostedRepository, Task, TaskThread
from dashboard.database import clock
from dashboard.models import Actor
from dashboard.people.access import caller_of
from tests.approvals.agent_runs.conftest import installed, workspace  # noqa: F401 - fixtures
from tests.support.code_host import TOKEN
from tests.support.task_host import TaskHost
from workspaces import secrets
from workspaces.models import Operation, Phase, PullRequest, Snapshot, State, Workspace

LABEL = "agent"


@pytest.fixture
def kind():
    return "gitea"


@pytest.fixture
def host(kind, team, settings):
    settings.HANDRAIL_PRIVATE_SOURCES = True
    made = TaskHost(kind)
    name = f"CODE_HOST_127_0_0_1_{made.url.rpartition(':')[2]}"
    secrets.save(team, name, "host", TOKEN, by=Actor.system("tests"))
    yield made
    made.close()


@pytest.fixture
def source(host, team, workspace, lena, kind):  # noqa: F811
    """The repository, which gives tasks of two attempts by hand."""
    wish = {"address": host.address, "kind": kind, "label": LABEL, "attempts": [{}, {}]}
    return repositories.save(team, wish, caller=caller_of(lena))


@pytest.fixture
def known(host, team, alice, lena, bob):
    """The accounts of lena, a lead, and of bob, a reviewer."""
    for person in (lena, bob):
        wish = {"person": person.get_username(), "host": host.url, "login": f"{person.get_username()}-at-host"}
        accounts.add(team, wish, caller=caller_of(alice))


def read():
    """What the queue does as soon as something is due, now."""
    HostedRepository.objects.update(read_at=clock.now())
    starting.step()
    follow()


def follow():
    TaskThread.objects.filter(read_at__isnull=False).update(read_at=clock.now())
    following.step()


@pytest.fixture
def labelled(host, source, known):
    """A task that a label started: (task, number of its issue)."""
    number = host.issue("Round the till", "It rounds wrongly.")
    host.label(number, LABEL, "lena-at-host")
    read()
    return Task.objects.get(), number


def up(task: Task):
    """Its workspaces as the runner makes them."""
    Operation.objects.filter(kind="create").update(phase=Phase.SETTLED, outcome={"ok": True})
    for place in Workspace.objects.filter(attempt__task=task):
        about = {"workspace": place, "number": 1, "tree": b"\1" * 32, "kind": "setup", "entries": 1, "bytes": 1}
        place.head = place.baseline = Snapshot.objects.create(**about, added_bytes=1, created_at=place.created_at)
        place.state = State.READY
        place.save()


def opened(task: Task, host: TaskHost) -> PullRequest:
    """The pull request of the chosen attempt, as the runner opens it and notes it."""
    place = Workspace.objects.get(attempt__task=task, attempt__chosen=True)
    branch = f"handrail/{place.key}"
    host.branches[branch] = "aa11"
    pull = host.opens(branch)
    now = clock.now()
    Operation.objects.filter(kind="pull_request").update(phase=Phase.SETTLED, outcome={"ok": True})
    return PullRequest.objects.create(
        workspace=place,
        number=pull["number"],
        url=f"{host.address}/pull/{pull['number']}",
        branch=branch,
        base="main",
        title=task.title,
        sha="aa11",
        opened_at=now,
        pushed_at=now,
    )

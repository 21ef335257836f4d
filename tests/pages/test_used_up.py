"""Disk, memory and processes that ran out are said in words wherever a person looks."""

import asyncio
from types import SimpleNamespace

import pytest

from dashboard.database import clock
from dashboard.text.visible_text import plain_size
from tests.pages.conftest import make_command, make_workspace
from workspaces.models import Operation, Phase, State, Terminal, Workspace
from workspaces.runner import programs
from workspaces.runner.measure import disk_quota
from workspaces.shim.record import Exit

pytestmark = pytest.mark.django_db
WORDS = "This workspace uses 400.2 MB of 150.0 MB, so its programs are frozen."


@pytest.fixture
def full(workspace):
    Workspace.objects.filter(pk=workspace.pk).update(vitals={"bytes": 419640000, "frozen": WORDS})
    workspace.refresh_from_db()
    return workspace


def address(workspace, rest=""):
    return f"/w/{workspace.team.slug}/{workspace.key}/{rest}"


def terminal_of(workspace):
    operation = Operation.objects.create(workspace=workspace, kind="terminal", phase=Phase.STARTED, due_at=clock.now())
    return Terminal.objects.create(workspace=workspace, operation=operation, argv=["bash"])


def test_each_page_of_a_full_workspace_says_that_it_is_frozen_and_where_to_make_room(full, lena, browser_of, read):
    command = make_command(full, "dd if=/dev/zero of=big", phase=Phase.STARTED, started_at=clock.now())
    person = browser_of(lena)
    pages = {
        "workspace": address(full),
        "commands": address(full, "checks/"),
        "command": address(full, f"commands/{command.pk}/"),
        "terminal": address(full, f"terminals/{terminal_of(full).pk}/"),
        "Desk": "/",
    }
    size = address(full, "size/")
    for name, page in pages.items():
        text = read(person, page)
        assert WORDS in text, name
        assert f'href="{size}"' in text, name
    assert "Frozen: disk full" in read(person, "/workspaces/")
    assert "Frozen: disk full" in read(person, pages["command"])
    assert ">Working<" not in read(person, pages["workspace"])


@pytest.mark.parametrize("state", [State.PAUSED, State.STOPPED])
def test_a_workspace_that_is_not_up_is_not_frozen(full, lena, browser_of, read, state):
    Workspace.objects.filter(pk=full.pk).update(state=state)
    for page in (address(full), "/", "/workspaces/"):
        assert "rozen" not in read(browser_of(lena), page), page


def test_words_that_are_stored_have_plain_spaces(workspace, settings, monkeypatch):
    assert plain_size(419640000) == "400.2 MB"
    settings.HANDRAIL_WORKSPACE_BYTES = 1 << 20
    settings.HANDRAIL_RESERVE_BYTES = 1 << 60
    for words in (disk_quota._too_large(workspace, 1 << 30), disk_quota._disk_is_full()):
        assert words
        assert words.isascii(), words


def test_a_used_up_limit_on_processes_is_shown_with_a_way_to_end_them(workspace, lena, browser_of, read):
    assert "processes and threads" not in read(browser_of(lena), address(workspace))
    Workspace.objects.filter(pk=workspace.pk).update(vitals={"processes": {"count": 64, "limit": 64}})
    text = read(browser_of(lena), address(workspace))
    assert "64 of 64 processes and threads" in text
    assert 'name="command" value="kill -KILL -1"' in text
    Workspace.objects.filter(pk=workspace.pk).update(state=State.STOPPED)
    assert "processes and threads" not in read(browser_of(lena), address(workspace))


OUTCOMES = [
    ({"reason": "oom", "words": "killed by SIGKILL: out of memory. The limit is 256.0 MB"}, "Out of memory"),
    ({"reason": "cancelled", "words": "killed by SIGKILL: cancelled"}, "Ended by signal 9"),
    ({"reason": "exited", "words": "exit 1: a program was killed because memory ran out", "oom_kills": 1}, "Ended"),
]


@pytest.mark.parametrize(("outcome", "label"), OUTCOMES)
def test_the_end_of_a_command_is_said_in_words(workspace, lena, browser_of, read, outcome, label):
    command = make_command(workspace, "python3 eats.py", signal=9, exit_status=None)
    Operation.objects.filter(pk=command.operation_id).update(outcome=outcome)
    text = read(browser_of(lena), address(workspace, f"commands/{command.pk}/"))
    assert outcome["words"] in text
    assert label in text
    assert f"<p>{outcome['reason']}</p>" not in text
    assert label in read(browser_of(lena), address(workspace, "checks/"))


def test_memory_that_ran_out_names_its_limit(team, agent):
    workspace = make_workspace(team, agent, "small")
    workspace.environment.limits = {"memory_bytes": 256 << 20}
    said = "killed by SIGKILL: out of memory. The limit is 256.0 MB; its environment can set a higher one"
    assert programs._end_text(Exit("oom", signal=9), workspace) == said
    assert programs._end_text(Exit("exited", exit_status=0), workspace) == "exit 0"
    inside = programs._end_text(Exit("exited", exit_status=1, oom_kills=1), workspace)
    assert inside.startswith("exit 1: a program was killed because memory ran out. The limit is 256.0 MB")


@pytest.mark.parametrize(("limits", "tasks", "said"), [({"pids"}, 63, False), ({"pids"}, 64, True), (set(), 64, False)])
def test_processes_are_counted_where_a_limit_is_in_force(limits, tasks, said):
    class Driver:
        async def tasks(self, owner):
            return tasks

    workspace = SimpleNamespace(environment=SimpleNamespace(driver="sandbox", limits={"pids": 64}))
    found = asyncio.run(disk_quota._used_up(Driver(), SimpleNamespace(limits=limits), workspace))
    assert found == ({"processes": {"count": 64, "limit": 64}} if said else {})


def test_a_page_that_asks_first_posts_to_its_own_address(full, lena, browser_of, read):
    """The address bar shows the page that the person came from, which takes no POST."""
    asks = address(full, "size/remove/?path=big")
    assert f'<form method="post" action="{asks}"' in read(browser_of(lena), asks)

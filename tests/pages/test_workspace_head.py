"""The head of a workspace's pages: what happens now, two buttons and a menu, one row of tabs, what was kept."""

import re

import pytest
from django.utils.html import escape

from approvals.models import AgentSession
from approvals.registered import runner as registered
from dashboard.database import clock
from dashboard.models import Actor
from dashboard.people.access import caller_of
from dashboard.text.labels import STATES
from tests.pages.conftest import keep_tree, make_command, make_workspace
from workspaces import extensions, operations
from workspaces.models import Environment, Phase, State, Terminal, Workspace
from workspaces.operations.shown_state import MOVES
from workspaces.pages.header import TABS, Head, find
from workspaces.pages.operation_view import OPERATION_LABELS
from workspaces.runner.operations import KINDS

HERE = "/w/payments/repo-task-1/"
SYSTEM = Actor.system("test")
# Exclusive kinds that leave the state as it is, so that the header names it as before.
STAYS = {"create", "snapshot", "asked_snapshot", "prove", "hold", "forget", "keep_checkpoint"}


def head_of(text: str) -> str:
    return text[text.index('id="workspace-head"') : text.index("</header>", text.index('id="workspace-head"'))]


def in_sight(text: str) -> list[str]:
    """The labels of the buttons that can be seen without opening a menu."""
    buttons = head_of(text).split('id="head-buttons"')[1].split("<details")[0]
    return [
        re.sub(r"<[^>]+>", "", label).strip()
        for label in re.findall(r"<(?:button|a)\b[^>]*>(.*?)</(?:button|a)>", buttons)
    ]


def test_every_kind_of_operation_has_words(monkeypatch):
    for slot in ("kinds", "sweeps", "system_files"):
        monkeypatch.setattr(extensions, slot, type(getattr(extensions, slot))())
    registered.register()
    assert (KINDS.keys() | extensions.kinds.keys()) - OPERATION_LABELS.keys() == set()


@pytest.mark.parametrize("kind", sorted(OPERATION_LABELS))
def test_the_header_has_a_word_for_every_kind_in_progress(workspace, alice, browser_of, read, kind):
    operation = operations.submit(kind, workspace=workspace, by=SYSTEM, exclusive=True)
    type(operation).objects.update(phase=Phase.STARTED)
    head = head_of(read(browser_of(alice), HERE))
    word = STATES["workspace"][MOVES.get(kind, "ready")][0]
    assert f"{word}</span>" in head
    assert f"{escape(OPERATION_LABELS[kind])} ·" in head


@pytest.mark.parametrize("kind", sorted(MOVES))
def test_while_the_state_changes_each_button_that_changes_something_is_off_with_the_reason(workspace, alice, kind):
    operations.submit(kind, workspace=workspace, by=SYSTEM, exclusive=True)
    request = type("Request", (), {"caller": caller_of(alice)})
    head = Head(find(request, "payments", "repo-task-1"), request.caller, "workspace")
    assert head.why_off == f"{head.state_words}: buttons work again once this is done."
    assert {control.label for control in head.controls if control.is_safe} == {"Edit details…", "Installed programs"}


@pytest.mark.parametrize(
    ("state", "labels"),
    [
        (State.READY, ["Open terminal", "Pause"]),
        (State.PAUSED, ["Resume", "Open terminal"]),
        (State.STOPPED, ["Resume", "Restart from…"]),
        (State.ARCHIVED, ["Resume"]),
        (State.FAILED, ["Try again"]),
    ],
)
def test_two_buttons_at_most_stand_beside_the_menu(workspace, alice, vera, browser_of, read, state, labels):
    Workspace.objects.update(state=state)
    for tab in ("", "changes/", "snapshots/"):
        assert in_sight(read(browser_of(alice), f"{HERE}{tab}")) == labels
    assert in_sight(read(browser_of(vera), HERE)) == []


def test_the_menu_has_the_rest_and_what_replaces_files_asks_on_a_page(workspace, alice, browser_of, read):
    client = browser_of(alice)
    menu = head_of(read(client, HERE)).split('class="menu-list"')[1].split("</details>")[0]
    for label, address in (
        ("Restore snapshot 2…", f"{HERE}snapshots/2/restore/"),
        ("Reset to after setup…", f"{HERE}reset/"),
        ("Archive…", f"{HERE}archive/"),
        ("Move to trash…", f"{HERE}delete/"),
    ):
        assert re.search(rf'<a [^>]*href="{re.escape(address)}"[^>]*>{label}</a>', menu), label
        assert "<form" in client.get(address, follow=True).content.decode()
    assert re.search(rf'action="{HERE}stop/"', menu)


@pytest.mark.parametrize("tab", [name for name, _ in TABS])
def test_the_tabs_are_one_row_and_the_current_one_is_in_it(workspace, alice, browser_of, read, tab):
    request = type("Request", (), {"caller": caller_of(alice)})
    head = Head(find(request, "payments", "repo-task-1"), request.caller, tab)
    assert [name for name, _ in head.tabs][:5] == [name for name, _ in TABS[:5]]
    assert tab in dict(head.tabs)
    assert sorted(name for name, _ in head.tabs + head.more_tabs) == sorted(name for name, _ in TABS)


def test_the_line_says_task_lines_and_checks(team, agent, workspace, alice, browser_of, read, tmp_path):
    first, second = workspace.snapshots.order_by("number")
    type(first).objects.filter(pk=first.pk).update(tree=keep_tree(team, tmp_path / "a", {"a.py": "1\n", "b.py": "1\n"}))
    type(first).objects.filter(pk=second.pk).update(tree=keep_tree(team, tmp_path / "b", {"a.py": "2\n3\n"}))
    Environment.objects.update(checks={"tests": "pytest", "lint": "ruff", "types": "mypy"})
    make_command(workspace, "pytest", check_name="tests")
    make_command(workspace, "ruff", exit_status=1, check_name="lint")
    about = {"team": team, "agent": agent, "dialect": "claude-code", "started_at": clock.now(), "last_at": clock.now()}
    AgentSession.objects.create(native_id="s1", workspace=workspace, title="Add a cart\u202e badge", **about)
    AgentSession.objects.create(native_id="s2", workspace=None, title="Elsewhere", **about)
    text = read(browser_of(alice), f"{HERE}snapshots/")
    line = re.sub(r"<[^>]+>", "", text.split('id="head-now"')[1].split("</p>")[0])
    assert "Add a cart" in line
    assert "\u202e" not in line
    assert f"{agent.name} began" in re.sub(r"\s+", " ", line)
    assert "+2" in line
    assert "−2" in line
    assert "in 2 files, up to snapshot 2" in line
    assert re.search(r"1&nbsp;✓passed\s+1&nbsp;✕failed\s+1 not run yet", line), line
    assert re.search(r'Changes\s*<span class="number">2</span>', text)
    assert "Elsewhere" not in text


def test_without_a_task_or_a_change_there_is_no_line(workspace, alice, browser_of, read):
    assert 'id="head-now"' not in read(browser_of(alice), HERE)


def test_a_stopped_workspace_leads_with_resume_and_what_was_kept(workspace, alice, browser_of, read):
    Workspace.objects.update(state=State.STOPPED)
    operation = operations.submit("terminal", workspace=workspace, by=SYSTEM)
    type(operation).objects.update(phase=Phase.SETTLED, outcome={"ok": True})
    Terminal.objects.create(workspace=workspace, operation=operation, argv=["bash"], ended_at=clock.now())
    text = read(browser_of(alice), HERE)
    assert re.search(rf'action="{HERE}resume/"[^>]*>.*?<button class="primary">Resume</button>', head_of(text), re.S)
    asleep = text.split('id="asleep"')[1].split("</section>")[0]
    assert "Stopped: Resume starts it." in asleep
    assert "All files, as in snapshot 2 (12 files and folders)." in asleep
    assert "The recording of 1 terminal." in asleep
    assert "Programs and their memory: they ended." in asleep
    assert text.index('id="asleep"') < text.index('id="rail"')
    Workspace.objects.update(missing_snapshot="The disk was full.")
    assert "All files. No snapshot has their last changes yet." in read(browser_of(alice), HERE)
    assert 'id="asleep"' not in read(browser_of(alice), f"{HERE}changes/")


def test_a_workspace_that_is_up_has_nothing_to_say_of_a_sleep(workspace, team, agent, alice, browser_of, read):
    make_workspace(team, agent, "other")
    assert 'id="asleep"' not in read(browser_of(alice), HERE)

"""The files as they were when an agent asked: kept as a snapshot, named on the card, noted in the log."""

from datetime import timedelta

import pytest

from approvals.actions import bound_files
from approvals.actions.asked_snapshots import asking
from approvals.broker import asked_snapshot
from approvals.models import Action
from dashboard.models import Event
from tests.pages.conftest import FORCE, LIST, PUSH, keep_tree
from workspaces import extensions
from workspaces.host import paths
from workspaces.models import Environment, Operation, Snapshot, Workspace

QUESTION = {"questions": [{"question": "Which?", "header": "Which", "options": [{"label": "a"}, {"label": "b"}]}]}


@pytest.fixture
def up(workspace, runner, monkeypatch):
    """The workspace on a host, with files that are those of its newest snapshot."""
    monkeypatch.setitem(extensions.kinds, asking.KIND, asked_snapshot.AskedSnapshot())
    tree = keep_tree(workspace.team, paths.tree_of(workspace), {"calc.py": "print(1)\n"})
    workspace.snapshots.filter(number=2).update(tree=tree)
    Workspace.objects.filter(pk=workspace.pk).update(runner=runner.daemon.row)
    return Workspace.objects.select_related("environment", "team").get(pk=workspace.pk)


def asked_snapshots():
    return Operation.objects.filter(kind=asking.KIND)


def card(action) -> str:
    return f"/actions/{action.pk}/"


def asked(action) -> tuple:
    action = Action.objects.select_related("asked_snapshot").get(pk=action.pk)
    found = action.asked_snapshot
    return found and (found.number, found.kind, found.label)


def noted(action) -> list[tuple[str, dict]]:
    events = Event.objects.filter(subject_id=str(action.pk), verb__startswith="action.asked_").order_by("seq")
    return [(event.verb, {name: event.data.get(name) for name in ("snapshot", "reason")}) for event in events]


def test_the_newest_snapshot_is_the_one_if_nothing_has_changed(up, ask, runner, bob, browser_of, read):
    action, client = ask(PUSH, workspace=up), browser_of(bob)
    assert (asked(action), asked_snapshots().count()) == (None, 1)
    assert "The snapshot of the files when the agent asked hasn't been taken yet." in read(client, card(action))
    runner()
    assert asked(action) == (2, "manual", "before lunch")
    assert noted(action) == [("action.asked_snapshot", {"snapshot": 2, "reason": None})]
    page = read(client, card(action))
    assert 'Files when the agent asked: <a href="/w/payments/repo-task-1/snapshots/2/">snapshot 2</a>.' in page
    assert 'href="/w/payments/repo-task-1/changes/?from=2&amp;to=live"' in page
    assert "not taken yet" not in page


def test_changed_files_are_kept_under_a_label(up, ask, runner):
    (paths.tree_of(up) / "calc.py").write_text("print(2)\n")
    action = ask(PUSH, workspace=up)
    runner()
    assert asked(action) == (3, "asked", f"when A-1 was asked ({action.title})")
    again = ask(FORCE, workspace=up)
    runner()
    assert asked(again)[0] == 3


def test_actions_that_come_before_the_runner_begins_share_one(up, ask, runner):
    first, second = ask(PUSH, workspace=up), ask(FORCE, workspace=up)
    assert asked_snapshots().count() == 1
    runner()
    assert [(asked(action)[0], len(noted(action))) for action in (first, second)] == [(2, 1), (2, 1)]


def test_a_snapshot_that_fails_is_reported_and_noted(up, ask, runner, bob, browser_of, read, api, token_of):
    (paths.tree_of(up) / "calc.py").unlink()
    paths.tree_of(up).rmdir()
    action = ask(PUSH, workspace=up)
    runner()
    [(verb, data)] = noted(action)
    assert (verb, asked(action), data["snapshot"]) == ("action.asked_snapshot_failed", None, None)
    assert data["reason"].startswith("The snapshot could not be kept: there is no folder")
    said = "No snapshot of the files could be taken when the agent asked: The snapshot could not be kept"
    assert said in read(browser_of(bob), card(action))
    told = api(token_of(bob)).get(f"/api/v1/actions/{action.pk}").json()["files_when_asked"]
    assert told == {"state": "failed", "snapshot": None, "reason": data["reason"]}


def test_the_card_says_that_its_snapshot_was_deleted(up, ask, runner, bob, browser_of, read, api, token_of):
    (paths.tree_of(up) / "calc.py").write_text("print(2)\n")
    action = ask(PUSH, workspace=up)
    runner()
    address = f"/api/v1/actions/{action.pk}"
    told = api(token_of(bob)).get(address).json()["files_when_asked"]
    assert told == {"state": "taken", "snapshot": 3, "reason": ""}
    Workspace.objects.filter(pk=up.pk).update(head=None)
    Snapshot.objects.get(workspace=up, number=3).delete()
    assert "The snapshot of the files when the agent asked was deleted." in read(browser_of(bob), card(action))
    assert api(token_of(bob)).get(address).json()["files_when_asked"]["state"] == "deleted"


def test_the_card_says_how_late_its_snapshot_was_taken(up, ask, runner, bob, browser_of, read):
    action = ask(PUSH, workspace=up)
    runner()
    operation = asked_snapshots().get()
    assert "minutes after the agent asked" not in read(browser_of(bob), card(action))
    Operation.objects.update(settled_at=operation.due_at + timedelta(seconds=75))
    assert "It was taken 1:15 minutes after the agent asked." in read(browser_of(bob), card(action))


def test_once_it_ran_the_card_compares_with_the_snapshot_before(up, ask, runner, bob, browser_of, read):
    action = ask(PUSH, workspace=up)
    runner()
    found = Action.objects.filter(pk=action.pk)
    found.update(asked_snapshot=up.baseline, snapshot_before=up.head, status="succeeded", consumed_at=action.created_at)
    page = read(browser_of(bob), card(action))
    assert "See what changed before it ran" in page
    assert "changes/?from=1&amp;to=2" in page
    found.update(snapshot_before=None)
    assert "See what changed before it ran" not in read(browser_of(bob), card(action))


def test_what_needs_approval_again_gets_another_one(up, ask, runner, bob, decide):
    action = ask(PUSH, workspace=up)
    runner()
    decide(action, by=bob)
    approved = Action.objects.get(pk=action.pk)
    assert bound_files.ask_again(approved, bound_files.Bound(), ["push.sh"])
    assert (asked(action), asked_snapshots().count()) == (None, 2)
    runner()
    assert asked(action)[0] == 2


def test_none_is_taken_where_nothing_waits_or_nothing_could_change(up, ask, team):
    folder = Environment.objects.create(team=team, name="folder-x", driver="folder", minimum_isolation="none")
    ask(PUSH)
    ask(LIST, workspace=up)
    ask(QUESTION, tool="AskUserQuestion", workspace=up)
    Workspace.objects.filter(pk=up.pk).update(environment=folder)
    ask(PUSH, workspace=Workspace.objects.select_related("environment").get(pk=up.pk))
    assert not asked_snapshots().exists()
    assert set(Action.objects.values_list("asked_operation", flat=True)) == {None}


def test_without_a_host_there_are_no_files(ask, workspace, bob, browser_of, read):
    action = ask(PUSH, workspace=workspace)
    assert not Operation.objects.exists()
    assert "asked-files" not in read(browser_of(bob), card(action))

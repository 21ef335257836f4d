"""Workspaces on pages without a runner: the list, one of them, its trash, and who may move it."""

import os
import re
from datetime import timedelta

import pytest
from django.db import connection

from dashboard.database import clock
from dashboard.models import Actor, Event
from workspaces import lifecycle
from workspaces.host import paths
from workspaces.models import Command, Environment, Operation, State, Workspace
from workspaces.store import LocalTree, Store

from .conftest import PUSH, make_command, make_workspace

HERE = "/w/payments/repo-task-1/"


def test_the_list_says_states_in_words(team, agent, alice, browser_of, read):
    make_workspace(team, agent, "sleeper", State.PAUSED)
    make_workspace(team, agent, "broken", State.FAILED, reason="The setup ended with 3.")
    make_command(make_workspace(team, agent, "worker"), phase="started")
    text = read(browser_of(alice), "/workspaces/")
    for words in ("Paused", "Failed", "Working", "The setup ended with 3."):
        assert words in text
    assert "sleeper" not in read(browser_of(alice), "/workspaces/?state=awake")


def test_a_list_with_nothing_says_what_to_do(alice, vera, browser_of, read):
    assert 'href="/workspaces/new/"' in read(browser_of(alice), "/workspaces/")
    text = read(browser_of(vera), "/workspaces/")
    assert "None yet." in text
    assert "/workspaces/new/" not in text


def test_lists_are_cut_and_go_on(team, agent, alice, browser_of, read):
    for number in range(53):
        make_workspace(team, agent, f"w{number:02}")
    client = browser_of(alice)
    first = read(client, "/workspaces/")
    assert first.count('id="workspace-') == 50
    older = first.split('rel="next"')[0].rsplit('href="', 1)[1].split('"')[0].replace("&amp;", "&")
    assert read(client, f"/workspaces/{older}").count('id="workspace-') == 3


def test_a_place_in_a_list_that_makes_no_sense_is_the_beginning(workspace, alice, browser_of, read):
    for before in ("x", "2026-01-01~", "2026-01-01T00:00:00~1", "~", "2026-01-01T00:00:00+00:00~zzz"):
        assert "repo-task-1" in read(browser_of(alice), f"/workspaces/?before={before}")


def test_a_new_one_is_made_by_its_form(team, lena, browser_of):
    fields = {"team": "payments", "key": "task-1", "setup": "true\r\ntrue\r\n", "where": "driver:sandbox"}
    response = browser_of(lena).post("/workspaces/new/", fields)
    assert response.headers["Location"] == "/w/payments/task-1/"
    made = Workspace.objects.get(key="task-1")
    assert (made.state, made.created_by_user, made.environment.setup) == (State.CREATING, lena, "true\ntrue\n")
    assert Operation.objects.get(workspace=made).kind == "create"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"key": "No Spaces"}, "Use lower-case letters"),
        ({"key": ""}, "This field is required."),
        ({"key": "x", "git": "ext::sh -c id"}, 'role="alert"'),
        ({"key": "x", "git": "--upload-pack=x"}, 'role="alert"'),
        ({"key": "x", "git": "/etc"}, 'role="alert"'),
        ({"key": "x", "where": "driver:rocket"}, "Select a valid choice"),
    ],
)
def test_a_form_that_makes_no_sense_says_why(team, lena, browser_of, fields, words):
    response = browser_of(lena).post("/workspaces/new/", {"team": "payments"} | fields)
    assert response.status_code == 200
    assert words in response.content.decode()
    assert not Workspace.objects.exists()


def test_a_workspace_is_created_from_an_environment_that_names_its_driver(team, lena, browser_of, read):
    made = Environment.objects.create(team=team, name="repo-ci", version=3, setup="make deps")
    text = read(browser_of(lena), "/workspaces/new/")
    assert "repo-ci, version 3. Sandboxed: sees only its own folder and its allowed hosts." in text
    fields = {"team": "payments", "key": "task-2", "where": f"environment:{made.pk}"}
    assert browser_of(lena).post("/workspaces/new/", fields).status_code == 302
    assert Workspace.objects.get(key="task-2").environment == made
    twice = browser_of(lena).post("/workspaces/new/", fields | {"key": "task-3", "setup": "true"})
    assert "The environment has its own setup script." in twice.content.decode()
    assert not Workspace.objects.filter(key="task-3").exists()


def test_the_same_name_with_another_source_is_refused(workspace, lena, browser_of, settings, tmp_path):
    settings.HANDRAIL_LOCAL_SOURCES = [tmp_path]
    (tmp_path / "repo").mkdir()
    fields = {"team": "payments", "key": workspace.key, "git": str(tmp_path / "repo")}
    text = browser_of(lena).post("/workspaces/new/", fields).content.decode()
    assert "repo-task-1 already exists with a different source." in text


def test_a_deleted_name_offers_the_trash(workspace, lena, browser_of, read):
    Workspace.objects.update(trashed_at=clock.now(), purge_at=clock.now(), state=State.STOPPED)
    client = browser_of(lena)
    text = client.post("/workspaces/new/", {"team": "payments", "key": workspace.key}).content.decode()
    assert "is in the trash until" in text
    assert "Start empty, although" in text
    assert "repo-task-1" in read(client, "/workspaces/trash/")
    client.post(f"/workspaces/trash/{workspace.pk}/back/")
    workspace.refresh_from_db()
    assert (workspace.trashed_at, workspace.state) == (None, State.STOPPED)


def test_a_name_that_is_gone_for_good_says_so_and_can_start_empty(workspace, lena, browser_of):
    now = clock.now()
    Workspace.objects.update(trashed_at=now, purge_at=now, purged_at=now, state=State.STOPPED)
    fields = {"team": "payments", "key": workspace.key, "where": "driver:sandbox"}
    text = browser_of(lena).post("/workspaces/new/", fields).content.decode()
    assert "repo-task-1 was deleted for good at" in text
    assert "Start empty, although" in text
    assert Workspace.objects.count() == 1
    assert browser_of(lena).post("/workspaces/new/", fields | {"fresh": "on"}).status_code == 302
    assert Workspace.objects.kept().get().key == workspace.key


def test_a_viewer_makes_nothing(vera, browser_of):
    assert browser_of(vera).get("/workspaces/new/").status_code == 403
    assert browser_of(vera).post("/workspaces/new/", {"team": "payments", "key": "x"}).status_code == 403


def test_the_timeline_has_everything_on_one_rail(ask, workspace, command, alice, browser_of, read):
    action = ask(PUSH, workspace=workspace)
    text = read(browser_of(alice), HERE)
    places = [text.index(part) for part in (f'id="action-{action.pk}"', f'id="command-{command.pk}"', "before lunch")]
    assert places == sorted(places)
    only = read(browser_of(alice), f"{HERE}?only=files")
    assert "before lunch" in only
    assert f'id="action-{action.pk}"' not in only


def test_the_head_says_what_holds_it_and_what_stays(workspace, alice, browser_of, read):
    text = read(browser_of(alice), HERE)
    assert "Sandboxed: sees only its own folder and its allowed hosts. Shares this machine&#x27;s kernel." in text
    assert "Only /workspace is kept." in text


def test_a_proof_that_does_not_hold_is_an_alarm(workspace, alice, browser_of, read):
    Workspace.objects.update(proof={"at": "2026-11-21T09:14:00+00:00", "snapshot": 2, "entries": 83915, "differ": 3})
    text = read(browser_of(alice), HERE)
    assert "3 of 83,915 files and folders differ from snapshot 2. Nothing was replaced." in text


def test_a_proof_that_holds_stands_in_the_row_of_its_resume_alone(workspace, alice, browser_of, read):
    proof = {"at": "2026-11-21T09:14:00+00:00", "snapshot": 2, "entries": 83915, "differ": 0}
    Workspace.objects.update(proof=proof)
    Event.objects.record(
        workspace.team_id,
        actor=Actor.person(alice),
        verb="workspace.resumed",
        subject=workspace,
        workspace=workspace,
        data=proof,
    )
    client, words = browser_of(alice), "Verified: 83,915 files and folders are as in snapshot 2"
    row = read(client, HERE).split("Resumed")[1].split("</li>")[0]
    assert words in row
    assert words not in read(client, f"{HERE}changes/?from=1&to=2")


@pytest.mark.parametrize("tab", ["", "snapshots/"])
def test_a_snapshot_is_taken_from_the_timeline_and_from_the_snapshots(workspace, lena, vera, browser_of, tab):
    form = f'action="{HERE}snapshots/take/"'
    assert browser_of(lena).get(f"{HERE}{tab}").content.decode().count(form) == 1
    assert form not in browser_of(vera).get(f"{HERE}{tab}").content.decode()


@pytest.mark.parametrize(("verb", "kind"), [("pause", "pause"), ("stop", "stop"), ("snapshots/take", "snapshot")])
def test_a_button_asks_the_runner_once(workspace, lena, browser_of, verb, kind):
    client = browser_of(lena)
    assert client.post(f"{HERE}{verb}/").status_code == 302
    operation = Operation.objects.get()
    assert (operation.kind, operation.by["label"]) == (kind, "lena")
    if kind != "snapshot":
        client.post(f"{HERE}{verb}/")
        assert Operation.objects.count() == 1


@pytest.mark.parametrize(
    "verb",
    ["pause", "resume", "stop", "retry", "reset", "delete", "snapshots/take", "snapshots/1/restore", "checks/run"],
)
def test_a_reviewer_moves_no_workspace(workspace, bob, browser_of, verb):
    assert browser_of(bob).post(f"{HERE}{verb}/", {"command": "ls"}).status_code == 403
    assert not Operation.objects.exists()


def test_a_move_that_makes_no_sense_is_a_notice(workspace, lena, browser_of):
    response = browser_of(lena).post(f"{HERE}retry/", follow=True)
    assert "repo-task-1 is ready, so it can&#x27;t be retried now." in response.content.decode()


def test_the_page_before_a_restore_says_what_it_does_not_undo(workspace, lena, browser_of, read):
    text = read(browser_of(lena), f"{HERE}snapshots/1/restore/")
    assert "Restore repo-task-1 to snapshot 1?" in text
    assert "The current files are saved as a snapshot first" in text
    assert "This doesn't undo pushes" in text
    assert not Operation.objects.exists()


def test_a_restore_is_asked_for_and_its_end_offers_the_way_back(workspace, lena, browser_of, read):
    client = browser_of(lena)
    response = client.post(f"{HERE}snapshots/1/restore/", {"confirmed": "yes"})
    operation = Operation.objects.get()
    assert response.headers["Location"] == f"{HERE}operations/{operation.pk}/"
    assert "Restoring" in read(client, response.headers["Location"])
    outcome = {"ok": True, "snapshot": 1, "safety_snapshot": 2, "created": 1, "changed": 2, "removed": 0}
    outcome["proof"] = {"entries": 12, "differ": 0}
    Operation.objects.update(phase="settled", outcome=outcome)
    text = read(client, response.headers["Location"])
    assert "<h1>Restoring: done</h1>" in text
    assert "Restored to snapshot 1. Verified." in text
    assert "Undo: restore snapshot 2" in text
    assert f'href="{HERE}snapshots/2/restore/"' in text


def test_a_restore_of_some_paths_names_them(workspace, lena, browser_of, read):
    operation = lifecycle.restore(workspace, 1, by=Actor.person(lena), paths=[b"a.py", b"sub/b.py"])
    outcome = {"ok": True, "snapshot": 1, "safety_snapshot": 2, "created": 0, "changed": 2, "removed": 0, "proof": {}}
    Operation.objects.update(phase="settled", outcome=outcome)
    text = read(browser_of(lena), f"{HERE}operations/{operation.pk}/")
    assert "Restored 2 paths from snapshot 1. Nothing else was changed." in text
    assert (text.count("<li><code>a.py</code>"), text.count("<li><code>sub/b.py</code>")) == (1, 1)
    assert "Restored to snapshot 1" not in text


@pytest.mark.parametrize(("verb", "stops"), [("snapshots/take", True), ("snapshots/1/restore", True), ("pause", False)])
def test_only_a_snapshot_or_a_restore_is_stopped_half_way(workspace, lena, bob, browser_of, verb, stops):
    client = browser_of(lena)
    client.post(f"{HERE}{verb}/", {"confirmed": "yes"})
    move = f"{HERE}operations/{Operation.objects.get().pk}/"
    assert (">Stop</button>" in client.get(move).content.decode()) == stops
    assert browser_of(bob).post(f"{move}stop/").status_code == 403
    assert Operation.objects.get().cancelled_at is None
    client.post(f"{move}stop/")
    assert (Operation.objects.get().cancelled_at is not None, Operation.objects.get().phase) == (stops, "due")


def test_the_head_says_how_far_a_move_is(workspace, lena, browser_of, read):
    client = browser_of(lena)
    client.post(f"{HERE}snapshots/take/")
    Operation.objects.update(phase="started", progress={"done": 12_000, "total": 83_915})
    assert "Taking a snapshot: 12,000 of 83,915 entries" in read(client, HERE)


def test_the_page_of_what_is_big_says_what_deleting_frees(workspace, team, agent, alice, browser_of, read, tmp_path):
    assert "Deleting repo-task-1 for good" not in read(browser_of(alice), f"{HERE}size/")
    store = Store.create(paths.store_of(team.pk))
    other = make_workspace(team, agent, "repo-task-2")
    (tmp_path / "tree").mkdir()
    for of, name in ((other, "shared"), (workspace, "alone")):
        (tmp_path / "tree" / name).write_bytes(os.urandom(300_000))
        of.snapshots.update(tree=bytes.fromhex(store.snapshot(LocalTree(tmp_path / "tree")).tree))
    text = read(browser_of(alice), f"{HERE}size/")
    assert re.search(r"store .58\d.\d.KB.. Deleting repo-task-1 for good frees 29\d.\d.KB of that.", text), text


def test_a_snapshot_shows_its_manifest_and_what_is_different_now(workspace, alice, browser_of, read):
    Workspace.objects.update(source={"git": "https://git.example.org/x"})
    text = read(browser_of(alice), f"{HERE}snapshots/1/")
    assert "https://git.example.org/x" in text
    assert "branch: b2" in text
    repository = text.index("https://git.example.org/x")
    assert "the same" in text[repository : text.index("branch: b1")]
    assert browser_of(alice).get(f"{HERE}snapshots/9/").status_code == 404


def test_pages_of_files_say_that_the_runner_is_away(workspace, alice, browser_of, read):
    assert "The runner does not answer" in read(browser_of(alice), f"{HERE}files/")


def test_deleting_asks_first_and_goes_to_the_trash(workspace, lena, browser_of, read):
    client = browser_of(lena)
    assert "It stays in the trash until" in read(client, f"{HERE}delete/")
    assert not Operation.objects.exists()
    client.post(f"{HERE}delete/")
    assert Operation.objects.get().kind == "trash"


def test_a_workspace_in_the_trash_can_be_read_and_not_changed(workspace, lena, browser_of, read):
    Workspace.objects.update(trashed_at=clock.now(), purge_at=clock.now(), state=State.STOPPED)
    client = browser_of(lena)
    text = read(client, HERE)
    assert "In the trash until" in text
    assert "Restore from trash" in text
    response = client.post(f"{HERE}resume/", follow=True)
    assert "is in the trash" in response.content.decode()
    assert not Operation.objects.exists()


# Commands ------------------------------------------------------------------------------------------------------------


def test_a_command_is_run_by_its_form(workspace, lena, browser_of, read):
    client = browser_of(lena)
    response = client.post(f"{HERE}checks/run/", {"command": "make\r\nmake test"})
    made = Command.objects.get()
    assert (made.shown, made.by["label"]) == ("make\nmake test", "lena")
    assert response.headers["Location"] == f"{HERE}commands/{made.pk}/"
    assert "Queued" in read(client, response.headers["Location"])


def test_a_check_is_run_by_its_button(workspace, lena, browser_of, read):
    Environment.objects.update(checks={"tests": "pytest -q"})
    client = browser_of(lena)
    assert "not run yet" in read(client, f"{HERE}checks/")
    client.post(f"{HERE}checks/run/", {"check": "tests"})
    assert (Command.objects.get().shown, Command.objects.get().check_name) == ("pytest -q", "tests")


def test_an_empty_command_is_refused(workspace, lena, browser_of):
    response = browser_of(lena).post(f"{HERE}checks/run/", {"command": "  "}, follow=True)
    assert "The command is empty." in response.content.decode()
    assert not Command.objects.exists()


@pytest.mark.parametrize(
    ("phase", "fields", "words"),
    [
        ("settled", {"exit_status": 0}, "Done"),
        ("settled", {"exit_status": 3}, "Failed with status 3"),
        ("settled", {"exit_status": None, "signal": 9}, "Ended by signal 9"),
        ("started", {}, "Running"),
        ("uncertain", {}, "Outcome unknown"),
    ],
)
def test_a_command_says_how_it_ended(workspace, alice, browser_of, read, phase, fields, words):
    command = make_command(workspace, phase=phase, **fields)
    assert words in read(browser_of(alice), f"{HERE}commands/{command.pk}/")
    assert words in read(browser_of(alice), f"{HERE}checks/")


def test_a_command_is_ended_by_a_person_once(workspace, lena, browser_of):
    command = make_command(workspace, phase="started")
    client = browser_of(lena)
    client.post(f"{HERE}commands/{command.pk}/cancel/")
    command.refresh_from_db()
    at = command.cancelled_at
    client.post(f"{HERE}commands/{command.pk}/cancel/")
    command.refresh_from_db()
    assert (at is not None, command.cancelled_at) == (True, at)


def test_a_command_of_another_workspace_is_not_found(team, agent, workspace, alice, browser_of):
    other = make_command(make_workspace(team, agent, "other-one"))
    assert browser_of(alice).get(f"{HERE}commands/{other.pk}/").status_code == 404


def test_what_happens_while_a_page_is_read_is_news_to_it(team, workspace, alice, browser_of, read):
    """The state is read, then it changes, then the page is written: its cursor must be of before that."""
    happened = []

    def meanwhile(execute, sql, params, many, context):
        result = execute(sql, params, many, context)
        if 'FROM "workspaces_workspace"' in sql and not happened:
            happened.append(sql)
            lifecycle.record(workspace, Actor.system("test"), "workspace.ready")
        return result

    client = browser_of(alice)
    with connection.execute_wrapper(meanwhile):
        text = read(client, HERE)
    assert happened
    assert int(re.search(r'data-cursor="(\d+)"', text)[1]) < Event.objects.filter(team=team).count()


# Gone, and what a driver refuses --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("by", "why"), [("alice", "by alice"), ("retention", "by retention")])
def test_the_pages_of_a_purged_workspace_say_since_when_and_why(
    workspace, alice, vera, mallory, browser_of, read, by, why
):
    actor = Actor.system("retention") if by == "retention" else Actor.person(alice)
    lifecycle.record(workspace, actor, "workspace.trashed")
    at = clock.now() - timedelta(days=3)
    type(workspace).objects.filter(pk=workspace.pk).update(trashed_at=at, purged_at=at)
    for tail in ("", "snapshots/", "snapshots/2/", "files/"):
        for person in (alice, vera):
            page = read(browser_of(person), f"/w/payments/repo-task-1/{tail}", status=410)
            assert f"it was deleted {why}, and the time in the trash is over." in page
            assert "Gone since" in page
        assert "repo-task-1" not in read(browser_of(mallory), f"/w/payments/repo-task-1/{tail}", status=404)


def test_a_new_workspace_with_the_key_of_a_purged_one_is_shown(workspace, team, agent, alice, browser_of, read):
    type(workspace).objects.filter(pk=workspace.pk).update(trashed_at=clock.now(), purged_at=clock.now())
    make_workspace(team, agent, "repo-task-1")
    assert "Gone since" not in read(browser_of(alice), "/w/payments/repo-task-1/")


@pytest.mark.parametrize(("driver", "forks"), [("folder", 0), ("sandbox", 1), ("docker", 1), ("microvm", 1)])
def test_a_fork_is_offered_where_the_driver_has_one(workspace, alice, vera, browser_of, read, driver, forks):
    type(workspace.environment).objects.update(driver=driver)
    page = read(browser_of(alice), "/w/payments/repo-task-1/snapshots/2/")
    assert (page.count("snapshots/2/fork/"), page.count("snapshots/2/pin/")) == (forks, 1)
    assert "snapshots/2/fork/" not in read(browser_of(vera), "/w/payments/repo-task-1/snapshots/2/")

"""Archiving on the page, by API and by a rule: who may, what is refused, and what an archived workspace offers."""

from datetime import timedelta

import pytest

from dashboard.database import clock
from dashboard.models import Actor, Event
from dashboard.problems import Problem
from workspaces import lifecycle
from workspaces.models import Operation, RetentionRule, State, Workspace
from workspaces.services import retention
from workspaces.services.retention import holds

from .conftest import make_workspace

AT = "/w/payments/repo-task-1/"
SWEEPER = Actor.system("retention")


def archiving() -> list[str]:
    return sorted(Operation.objects.filter(kind="put_away").values_list("workspace__key", flat=True))


def test_a_lead_archives_on_the_page_and_a_viewer_does_not(workspace, alice, vera, mallory, browser_of, read):
    assert f'href="{AT}archive/"' in read(browser_of(alice), AT)
    assert "its files leave this host once a snapshot of all of them" in read(browser_of(alice), f"{AT}archive/")
    statuses = [browser_of(person).post(f"{AT}archive/").status_code for person in (vera, mallory)]
    assert (statuses, archiving()) == ([403, 404], [])
    answer = browser_of(alice).post(f"{AT}archive/")
    operation = Operation.objects.get(kind="put_away")
    assert answer.url == f"{AT}operations/{operation.pk}/"
    assert (operation.exclusive, operation.by["label"]) == (True, "alice")
    assert browser_of(alice).post(f"{AT}archive/").url == answer.url  # the same wish twice is one
    assert "Archiving" in read(browser_of(alice), AT)


def test_the_page_says_that_ignored_files_are_removed(workspace, alice, browser_of, read):
    said = "leaves out of snapshots are removed for good"
    assert said not in read(browser_of(alice), f"{AT}archive/")
    type(workspace.environment).objects.update(snapshot_ignore="node_modules/\n")
    assert said in read(browser_of(alice), f"{AT}archive/")


def test_an_agent_archives_its_own_by_api(workspace, api, agent_token):
    answer = api(agent_token).post("/api/v1/workspaces/repo-task-1/archive")
    assert (answer.status_code, answer.json()["busy"]) == (202, "put_away")


def test_a_connected_folder_and_one_that_failed_are_refused(team, agent, workspace):
    Workspace.objects.update(state=State.FAILED)
    with pytest.raises(Problem) as refused:
        lifecycle.archive(workspace, by=SWEEPER)
    assert refused.value.detail == "repo-task-1 has failed, so it can't be archived now."
    workspace.environment.driver = "folder"
    with pytest.raises(Problem) as refused:
        lifecycle.archive(workspace, by=SWEEPER)
    assert refused.value.detail == "repo-task-1 is a connected folder: its files stay where they are."
    assert archiving() == []


def test_an_archived_one_offers_resume_alone_and_says_where_its_files_are(workspace, alice, browser_of, read):
    Workspace.objects.update(state=State.ARCHIVED)
    text = read(browser_of(alice), AT)
    assert "Archived" in text
    assert "Archived: Resume brings its files back and starts it." in text
    assert "All files, as in snapshot 2 (12 files and folders)." in text
    offered = [name for name in ("resume", "stop", "pause", "reset", "archive", "return") if f'"{AT}{name}/"' in text]
    assert offered == ["resume"]
    assert browser_of(alice).post(f"{AT}archive/").url == AT
    assert archiving() == []
    browser_of(alice).post(f"{AT}resume/")
    assert list(Operation.objects.values_list("kind", flat=True)) == ["resume"]


def test_a_workspace_whose_files_are_still_on_the_host_is_archived_again(workspace, alice, browser_of, read):
    words = "Its files could not all be removed from the host (tree: Permission denied). Archive it again."
    Workspace.objects.update(state=State.ARCHIVED, reason=words)
    text = read(browser_of(alice), AT)
    assert words in text
    assert f'href="{AT}archive/"' in text
    browser_of(alice).post(f"{AT}archive/")
    assert archiving() == ["repo-task-1"]


def test_the_list_shows_archived_ones_apart(team, agent, workspace, alice, browser_of, read):
    make_workspace(team, agent, "put-away", State.ARCHIVED)
    make_workspace(team, agent, "at-rest", State.STOPPED)
    shown = {state: read(browser_of(alice), f"/workspaces/?state={state}") for state in ("archived", "asleep", "")}
    keys = ("put-away", "at-rest", "repo-task-1")
    found = {state: [key for key in keys if f"/w/payments/{key}/" in text] for state, text in shown.items()}
    assert found == {"archived": ["put-away"], "asleep": ["at-rest"], "": list(keys)}


def unused(team, agent, key, days, state=State.STOPPED, **fields):
    made = make_workspace(team, agent, key, state, **fields)
    Workspace.objects.filter(pk=made.pk).update(last_active_at=clock.now() - timedelta(days=days))
    return made


def test_a_rule_archives_unused_ones_before_the_trash_takes_them(team, agent):
    RetentionRule.objects.create(team=team, layer="archive", days=30)
    unused(team, agent, "old", 31)
    unused(team, agent, "young", 29)
    unused(team, agent, "up", 31, State.READY)
    unused(team, agent, "gone", 31, State.ARCHIVED)
    holds.hold(team, reason="for the audit", by=SWEEPER, workspace=unused(team, agent, "held", 31))
    [part] = [part for part in retention.preview(team).parts if part.layer.name == "archive"]
    assert ([item.name for item in part.items], part.held) == (["files of old"], 1)
    report = retention.sweep_team(team)
    assert (dict(report.counts)["archive"], report.names["archive"], archiving()) == (1, ["files of old"], ["old"])
    swept = Event.objects.filter(verb="retention.swept").values_list("data", flat=True)
    assert list(swept) == [{"layer": "Files of unused workspaces", "count": 1, "items": {"old": ["files of old"]}}]


def test_an_archived_one_still_goes_to_the_trash_by_its_rule_and_stays_archived_there(team, agent):
    RetentionRule.objects.create(team=team, layer="archive", days=30)
    RetentionRule.objects.create(team=team, layer="workspaces", days=100)
    away, both = unused(team, agent, "away", 120, State.ARCHIVED), unused(team, agent, "both", 120)
    Workspace.objects.update(warned_at=clock.now() - timedelta(days=10))
    due = {part.layer.name: {item.workspace for item in part.items} for part in retention.preview(team).parts}
    assert due == {"workspaces": {"away", "both"}, "home": {"both"}}
    retention.sweep_team(team)
    assert set(Operation.objects.values_list("kind", "workspace")) == {("trash", away.pk), ("trash", both.pk)}
    Workspace.objects.filter(pk=away.pk).update(trashed_at=clock.now(), purge_at=clock.now())
    away.refresh_from_db()
    assert lifecycle.untrash(away, by=SWEEPER).state == State.ARCHIVED


def test_the_desk_says_what_goes_in_the_next_days_and_offers_to_keep_it(team, agent, lena, vera, browser_of, read):
    RetentionRule.objects.create(team=team, layer="archive", days=30)
    RetentionRule.objects.create(team=team, layer="workspaces", days=100)
    warned, soon = clock.now() - timedelta(days=1), clock.now() + timedelta(hours=36)
    unused(team, agent, "to-archive", 28)
    unused(team, agent, "later", 20)
    unused(team, agent, "to-trash", 99, State.ARCHIVED, warned_at=warned)
    unused(team, agent, "to-delete", 9, trashed_at=warned, purge_at=soon)
    held = unused(team, agent, "held", 28)
    holds.hold(team, reason="for the audit", by=SWEEPER, workspace=held)
    text = read(browser_of(lena), "/")
    assert "Retention will archive or delete soon" in text
    assert [text.count(words) for words in ("Is archived ", "Moves to the trash ", "deleted for good ")] == [1, 1, 1]
    assert (text.count("<button>Keep</button>"), text.count("<button>Restore</button>")) == (2, 1)
    seen = read(browser_of(vera), "/")
    assert ("to-archive" in seen, "<button>Keep</button>" in seen) == (True, False)
    browser_of(lena).post("/w/payments/to-archive/wanted/", {"next": "/"})
    assert "Is archived " not in read(browser_of(lena), "/")

"""A host that was declared lost is back: what it has is put aside, and a person keeps it as a fork or leaves it."""

import os
import time

import pytest
from asgiref.sync import async_to_sync
from django.urls import reverse

from dashboard.database import clock
from dashboard.models import Event
from tests.pages.conftest import keep_tree
from workspaces.drivers import lead_epochs
from workspaces.host import paths
from workspaces.models import Operation, Runner, Snapshot, State, Workspace
from workspaces.runner.reconcile import returned


@pytest.fixture
def back(runner, workspace, settings, tmp_path):
    """This host has files of the workspace, which another one leads since it was declared lost."""
    settings.HANDRAIL_HOME = tmp_path / "home"
    keep_tree(workspace.team, tmp_path / "first", {"a": "1"})
    tree = paths.make_folders(workspace) / "tree"
    (tree / "late.txt").write_text("written after the snapshot\n")
    other = Runner.objects.create(host="other", heartbeat_at=clock.now())
    here = runner.daemon.row
    sandbox = {"sandbox": {"available": True, "isolation": "namespace"}}
    Runner.objects.filter(pk=here.pk).update(lost_at=clock.now(), capabilities=sandbox)
    owed = {"host": here.host, "since": workspace.head.created_at.isoformat(), "snapshot": workspace.head.number}
    Workspace.objects.filter(pk=workspace.pk).update(runner=other, state=State.STOPPED, lead_epoch=7, owed=owed)
    workspace.refresh_from_db()
    return workspace


def sweep(runner):
    async_to_sync(returned.sweep)(runner.daemon)


def test_its_files_are_put_aside_and_nothing_is_started_there_under_an_older_lead(back, runner, settings):
    sweep(runner)
    aside = returned.folder_of(back.pk)
    assert (aside / "tree" / "late.txt").read_text() == "written after the snapshot\n"
    assert not paths.folder_of(back.pk).exists()
    assert lead_epochs.known(settings.HANDRAIL_HOME, str(back.pk)) == 7
    assert Workspace.objects.get(pk=back.pk).owed["found"] is True
    assert Runner.objects.get(pk=runner.daemon.row.pk).lost_at is None
    assert Event.objects.filter(verb="workspace.returned").count() == 1
    sweep(runner)
    assert Event.objects.filter(verb="workspace.returned").count() == 1


def test_what_nobody_answers_for_thirty_days_is_removed(back, runner):
    sweep(runner)
    aside = returned.folder_of(back.pk)
    long_ago = time.time() - returned.KEPT.total_seconds() - 60
    os.utime(aside, (long_ago, long_ago))
    sweep(runner)
    assert not aside.exists()
    assert Workspace.objects.get(pk=back.pk).owed == {}


def test_a_workspace_that_this_host_leads_stays_in_its_place(back, runner):
    Workspace.objects.update(runner=runner.daemon.row)
    sweep(runner)
    assert (paths.folder_of(back.pk) / "tree" / "late.txt").exists()


def test_the_page_says_what_is_missing_and_keeps_it_as_a_fork(back, runner, browser_of, lena, vera, read):
    page, browser = reverse("workspace", args=[back.team.slug, back.key]), browser_of(lena)
    host = runner.daemon.row.host
    assert f"It came back as snapshot {back.head.number}; changes since" in read(browser, page)
    assert "Keep as a fork" not in read(browser, page)
    sweep(runner)
    assert "Keep as a fork" in read(browser, page)
    assert "Keep as a fork" not in read(browser_of(vera), page)
    answer = reverse("workspace-returned", args=[back.team.slug, back.key])
    assert browser_of(vera).post(answer, {"key": "kept"}).status_code == 403
    browser.post(answer, {"key": "kept"})
    runner()
    operation = Operation.objects.get(kind="keep_returned")
    assert operation.outcome["ok"], operation.outcome
    fork, head = Workspace.objects.get(key="kept"), back.head
    kept = Snapshot.objects.get(pk=fork.source["fork"]["id"])
    assert (kept.kind, kept.label, kept.workspace) == ("found", f"as {host} came back with it", back)
    back.refresh_from_db()
    assert (back.head, back.owed) == (head, {})
    assert not returned.folder_of(back.pk).exists()
    assert "Keep as a fork" not in read(browser, page)


def test_it_is_left_behind_over_the_api(back, runner, api, token_of, lena):
    client, address = api(token_of(lena)), f"/api/v1/workspaces/{back.key}/returned"
    refused = client.post(address, {}, content_type="application/json")
    assert (refused.status_code, refused.json()["detail"]) == (
        409,
        f"Nothing of {back.key} came back from a lost host.",
    )
    sweep(runner)
    assert client.post(address, {"key": back.key}, content_type="application/json").status_code == 409
    assert client.post(address, {}, content_type="application/json").status_code == 202
    runner()
    assert client.get(f"/api/v1/workspaces/{back.key}").json()["owed"] is None
    assert not returned.folder_of(back.pk).exists()
    assert not Workspace.objects.exclude(pk=back.pk).exists()

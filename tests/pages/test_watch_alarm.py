"""What watching missed and a walk found: it is in the log, in the metrics and at the workspace, and watching ends."""

import pytest

from dashboard.database import clock
from dashboard.models import Actor, Event
from workspaces.models import Run, Runner, State, Workspace
from workspaces.runner import watching
from workspaces.store.watch import Watched


@pytest.fixture
def up(workspace):
    """A workspace that is up, and no watch of another test."""
    Workspace.objects.filter(pk=workspace.pk).update(state=State.READY)
    Run.objects.create(workspace=workspace, runner=Runner.objects.create(host="here"), started_at=clock.now())
    workspace.refresh_from_db()
    yield workspace
    watching.drop(workspace)


def test_a_missed_change_is_kept_and_counted_and_ends_watching(up, team, lena, token_of, api):
    watched = watching.of(up)
    assert watched is watching.of(up)
    name = f'handrail_watch_alarms{{team="{team.slug}"}}'
    assert f"{name} 0.0" in api(token_of(lena)).get("/metrics").content.decode()
    watched.fail(["src/deep"])
    watching.note(up, watched, Actor.system("runner"))
    found = Workspace.objects.get(pk=up.pk)
    assert (found.watch_alarms, found.watching["how"]) == (1, "off")
    assert "src/deep" in found.watching["why"]
    assert Event.objects.filter(verb="workspace.watch_alarm").count() == 1
    assert f"{name} 1.0" in api(token_of(lena)).get("/metrics").content.decode()
    assert api(token_of(lena)).get(f"/api/v1/workspaces/{up.key}").json()["watching"] == found.watching
    assert watching.of(found) is None


def test_what_is_not_up_is_not_watched(workspace):
    assert watching.of(workspace) is None


def test_how_it_is_watched_is_kept_while_it_is_up(up):
    watched = Watched()
    watched.how, watched.why = "fanotify", "its changes are watched"
    watching.note(up, watched, Actor.system("runner"))
    assert Workspace.objects.get(pk=up.pk).watching == {"how": "fanotify", "why": "its changes are watched"}
    assert not Event.objects.filter(verb="workspace.watch_alarm").exists()
    watching.of(up)
    watching.drop(up)
    assert Workspace.objects.get(pk=up.pk).watching == {}


def test_a_runner_that_starts_watches_nothing_yet(up):
    runner = Runner.objects.get(host="here")
    Workspace.objects.filter(pk=up.pk).update(runner=runner, watching={"how": "fanotify", "why": "of before"})
    watching.forget_earlier(runner)
    assert Workspace.objects.get(pk=up.pk).watching == {}

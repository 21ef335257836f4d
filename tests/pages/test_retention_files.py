"""Uploads and archives for download are kept for hours, setup layers on a host for days, by rules like the others'."""

import math
import os
import time
from datetime import timedelta

import pytest

from dashboard.database import clock
from dashboard.models import Event, Team
from workspaces.drivers.microvm.layers import Layers
from workspaces.models import RetentionRule, State, Workspace
from workspaces.provisioning import uploads
from workspaces.services import archives, retention
from workspaces.services.retention import holds
from workspaces.services.retention.layers import setup_layers

from .conftest import make_workspace
from .test_retention_api import admin, send  # noqa: F401
from .test_retention_sweep import NOBODY


def file_in(folder, name, hours):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(b"12345")
    at = (clock.now() - timedelta(hours=hours)).timestamp()
    os.utime(path, (at, at))
    return path


@pytest.fixture(autouse=True)
def home(settings, tmp_path):
    settings.HANDRAIL_HOME = tmp_path
    return tmp_path


@pytest.fixture
def workspace(team, agent):
    return make_workspace(team, agent, "shop", State.STOPPED)


def test_uploads_and_archives_go_after_their_default_hours(team, workspace):
    sent, packed = uploads.folder_of(team.pk), archives.folder_of(workspace.pk)
    gone = [file_in(sent, "a" * 32, 2.1), file_in(sent, ".interrupted", 2.1), file_in(packed, "1.tar.zst", 1.1)]
    kept = [file_in(sent, "b" * 32, 1.9), file_in(packed, "2.tar.zst", 0.9)]
    retention.sweep_hours()
    assert [path.exists() for path in (*gone, *kept)] == [False] * 3 + [True] * 2
    told = [event.data for event in Event.objects.filter(verb="retention.swept").order_by("seq")]
    of_uploads = {"layer": "Uploads", "count": 2, "items": {"": ["upload of 5 bytes"] * 2}}
    of_archives = {"layer": "Archives for download", "count": 1, "items": {"shop": ["archive of 5 bytes"]}}
    assert told == [of_uploads, of_archives]


def test_a_rule_of_the_team_or_environment_has_hours(team, workspace):
    RetentionRule.objects.create(team=team, layer="uploads", hours=24)
    RetentionRule.objects.create(team=team, layer="archives", hours=3, environment=workspace.environment.name)
    sent, packed = uploads.folder_of(team.pk), archives.folder_of(workspace.pk)
    kept = [file_in(sent, "a" * 32, 23), file_in(packed, "1.tar.zst", 2)]
    gone = [file_in(sent, "b" * 32, 25), file_in(packed, "2.tar.zst", 4)]
    retention.sweep_hours()
    assert [path.exists() for path in (*kept, *gone)] == [True, True, False, False]


def test_an_upload_can_be_used_until_it_is_deleted(team):
    path = file_in(uploads.folder_of(team.pk), "a" * 32, 2.1)
    assert uploads.find(team.pk, "a" * 32) == path
    retention.sweep_hours()
    assert not uploads.is_kept(team.pk, "a" * 32)


def test_a_hold_on_the_team_keeps_them(team):
    path = file_in(uploads.folder_of(team.pk), "a" * 32, 5)
    held = holds.hold(team, reason="lawsuit", until=None, by=NOBODY)
    retention.sweep_hours()
    assert path.exists()
    holds.release(held, by=NOBODY)
    retention.sweep_hours()
    assert not path.exists()


def test_the_preview_names_them(team, workspace):
    file_in(archives.folder_of(workspace.pk), "1.tar.zst", 1.1)
    [part] = retention.preview(team).parts
    assert (part.layer.name, [(item.workspace, item.name) for item in part.items]) == (
        "archives",
        [("shop", "archive of 5 bytes")],
    )


def test_another_teams_files_are_not_touched(team):
    other = Team.objects.create(slug="other", name="Other")
    RetentionRule.objects.create(team=other, layer="uploads", hours=8)
    path = file_in(uploads.folder_of(other.pk), "a" * 32, 5)
    retention.sweep_hours()
    retention.sweep_team(team)
    assert path.exists()


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"layer": "uploads", "days": 3}, "Uploads: give a number of hours, and no days."),
        ({"layer": "uploads"}, "Uploads: give a number of hours, and no days."),
        ({"layer": "home", "days": 3, "hours": 3}, "give days, not hours."),
        ({"layer": "uploads", "hours": 2, "environment": "default"}, "one rule for the whole team"),
    ],
)
def test_a_rule_has_the_unit_of_its_layer(workspace, admin, rule, words):  # noqa: F811
    refused = send(admin, "put", "", {"rules": [rule]})
    assert (refused.status_code, words in refused.json()["detail"]) == (422, True)
    assert not RetentionRule.objects.exists()


def test_the_api_says_hours_and_takes_them(team, admin):  # noqa: F811
    found = {rule["layer"]: rule for rule in admin.get("/api/v1/retention").json()["rules"]}["uploads"]
    assert (found["unit"], found["hours"], found["days"]) == ("hours", 2, None)
    assert send(admin, "put", "", {"rules": [{"layer": "uploads", "hours": 24}]}).status_code == 200
    assert RetentionRule.objects.get().hours == 24
    [event] = Event.objects.filter(verb="retention.saved")
    assert event.data["rules"] == ["uploads: 24 hours (before: default)"]


def test_setup_layers_stay_as_long_as_their_team_says(team, workspace):
    """A layer of which no workspace says whose it is stays for the longest rule of all teams."""
    Workspace.objects.update(base={"image": "debian", "digest": "sha256:1", "layer": "a1", "layer_digest": "sha256:2"})
    RetentionRule.objects.create(team=team, layer="setup-layers", days=2)
    of_mine = dict.fromkeys(("sha256:1", "a1", "sha256:2"), 2 * 86_400.0)
    assert setup_layers.ages() == (2 * 86_400.0, of_mine)
    other = Team.objects.create(slug="other", name="Other")
    assert setup_layers.ages() == (7 * 86_400.0, of_mine)
    RetentionRule.objects.create(team=other, layer="setup-layers", days=None)
    assert setup_layers.ages() == (math.inf, of_mine)


def test_a_layer_is_old_by_its_own_age(tmp_path):
    for name in ("a1", "b2"):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (time.time() - 1000,) * 2)
    kept = Layers(tmp_path)
    assert kept.collect(set(), 500, {"a1": math.inf}) == ["b2"]
    assert kept.collect(set(), math.inf, {}) == []
    assert kept.collect({"a1"}, 500, {"a1": 500}) == []
    assert kept.collect(set(), math.inf, {"a1": 500}) == ["a1"]

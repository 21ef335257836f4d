"""Blocks that a fork shares with its origin count once in the team's use, for the oldest workspace that has them."""

import os
import subprocess

import pytest

from dashboard.database import clock
from tests.pages.conftest import make_workspace
from tests.support.reflinks import mounted_with_reflinks
from workspaces.host import paths
from workspaces.models import Run, Runner, State, Workspace
from workspaces.provisioning import caps
from workspaces.runner.measure import shared_blocks
from workspaces.runner.measure.disk_usage import disk_usage

MB = 1 << 20


@pytest.fixture(params=["reflinks", "none"])
def place(tmp_path, request, require):
    if request.param == "none":
        yield tmp_path / "home"
        return
    with mounted_with_reflinks(tmp_path, require) as mounted:
        yield mounted / "home"


@pytest.fixture
def made(db, team, agent, place, settings):
    """`made(key, of)`: a workspace on this host that is a fork of `of`, with clones of its files where that works."""
    place.mkdir()
    settings.HANDRAIL_HOME = place
    runner = Runner.objects.create(host="here")

    def make(key, of=None):
        workspace = make_workspace(team, agent, key, forked_from=of, runner=runner)
        tree = paths.make_folders(workspace) / "tree"
        if of is None:
            (tree / "sub").mkdir()
            for name in ("a", "sub/b"):
                (tree / name).write_bytes(os.urandom(2 * MB))
            (tree / "small").write_bytes(b"x")
        else:
            subprocess.run(["cp", "-a", "--reflink=auto", f"{paths.tree_of(of)}/.", tree], check=True)
        os.sync()
        vitals = {"bytes": disk_usage(tree)}
        Workspace.objects.filter(pk=workspace.pk).update(vitals=vitals)
        return workspace

    return make


def up(workspace):
    now = clock.now()
    return Run.objects.create(workspace=workspace, runner=workspace.runner, started_at=now, ready_at=now)


def measured(*runs):
    shared_blocks.Sharing().round(list(runs))
    rows = Workspace.objects.order_by("created_at")
    return {row.key: {one["key"]: one["bytes"] for one in row.vitals.get("shared", [])} for row in rows}


def test_shared_blocks_count_for_the_oldest(made, place, team):
    origin = made("origin")
    first = made("first", origin)
    second = made("second", first)
    alone = made("alone")
    each = disk_usage(paths.tree_of(origin))
    runs = [up(second), up(alone)]
    if place.parent.name != "mounted":
        assert measured(*runs) == {"origin": {}, "first": {}, "second": {}, "alone": {}}
        assert caps._files_bytes(team.pk) == 4 * each
        return
    assert measured(*runs) == {"origin": {}, "first": {"origin": 4 * MB}, "second": {"origin": 4 * MB}, "alone": {}}
    assert caps._files_bytes(team.pk) == 4 * each - 8 * MB

    # What the origin writes anew is its own, and the forks go on sharing what it was.
    with open(paths.tree_of(origin) / "a", "r+b") as file:
        file.write(os.urandom(MB))
    os.sync()
    assert measured(*runs)["second"] == {"origin": 3 * MB, "first": MB}

    # Where the holder is gone, its blocks count for the others until they are measured again.
    Workspace.objects.filter(pk=origin.pk).update(state=State.ARCHIVED)
    assert caps._files_bytes(team.pk) == 3 * each - MB
    assert measured(*runs)["second"] == {"first": 4 * MB}
    assert caps._files_bytes(team.pk) == 3 * each - 4 * MB


def test_a_family_is_measured_again_only_when_it_is_due(made, place, monkeypatch):
    origin = made("origin")
    run = up(made("fork", origin))
    sharing, walks = shared_blocks.Sharing(), []
    monkeypatch.setattr(shared_blocks, "shared_blocks", lambda *folders: walks.append(folders) or [])
    sharing.round([run])
    sharing.round([run])
    assert len(walks) == (2 if place.parent.name == "mounted" else 0)  # one of each member
    made("another", origin)
    sharing.round([run])
    assert len(walks) == (5 if place.parent.name == "mounted" else 0)


def test_parts_of_extents_are_told_apart():
    found = shared_blocks.shared_between({"a": [(0, 10), (20, 30)], "b": [(5, 25)], "c": [(0, 40)]})
    assert found == {"a": {}, "b": {"a": 10}, "c": {"a": 20, "b": 10}}

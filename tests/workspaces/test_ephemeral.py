"""An ephemeral workspace: when its run has ended, the changes are a patch and a snapshot, and the files are gone."""

import io
import os
import subprocess
import zipfile

import pytest

from tests.support.desk import Desk
from tests.support.waiting import until
from tests.workspaces.test_life import tree_of


@pytest.fixture(scope="module")
def manager(product) -> Desk:
    return Desk(product, product.person_token("manager-of-reviews", "admin"))


@pytest.fixture(scope="module")
def review(manager) -> str:
    """The name of an ephemeral environment whose setup makes two files."""
    name = f"review-{os.urandom(4).hex()}"
    setup = "git init -q; echo ignored > .gitignore; seq 5 > numbers; echo old > file"
    made = manager.post("/environments", {"name": name, "driver": "sandbox", "setup": setup, "ephemeral": True}).json
    assert made["ephemeral"] is True
    return name


def put_away(desk, key) -> dict:
    desk.post(f"/workspaces/{key}/stop", expect=202)
    until(lambda: desk.get(f"/workspaces/{key}").json["state"] == "archived")
    return desk.settled(key)


def archived(manager, key) -> dict:
    """The data of the one event that says it was archived."""
    found, after = [], 0
    while events := manager.get(f"/events?after={after}&limit=1000").json["events"]:
        found += events
        after = events[-1]["id"]
    [made] = [event for event in found if event["verb"] == "workspace.created" and event["data"]["key"] == key]
    of_it = [event for event in found if event["workspace"] == made["workspace"]]
    [event] = [event for event in of_it if event["verb"] == "workspace.archived"]
    return event["data"]


def test_the_changes_are_kept_and_the_files_leave(desk, manager, product, review, tmp_path):
    key = desk.create(environment=review)["key"]
    desk.run(key, f"touch {key}; echo new > file; printf '\\0\\1' > binary; rm numbers; echo x > ignored")
    folder = tree_of(product, key).parent
    left = put_away(desk, key)
    assert (left["reason"], [entry.name for entry in folder.iterdir()]) == ("", ["programs"])
    [kept] = desk.get(f"/workspaces/{key}/artifacts").json["artifacts"]
    assert (kept["name"], kept["snapshot"], kept["by"]) == (f"{key}-changes", left["head_snapshot"], "ephemeral")
    with zipfile.ZipFile(io.BytesIO(desk.get(f"/artifacts/{kept['id']}/zip").body)) as archive:
        assert archive.namelist() == ["changes.patch"]
        patch = archive.read("changes.patch")
    subprocess.run(["bash", "-ec", "seq 5 > numbers; echo old > file"], cwd=tmp_path, check=True)
    subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=patch, check=True)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted(["binary", "file", key])
    assert (tmp_path / "file").read_text() == "new\n"
    assert (tmp_path / "binary").read_bytes() == b"\0\1"
    told = archived(manager, key)
    assert (told["changes"], told["why"]) == (f"{key}-changes", "")


def test_a_resume_brings_the_files_back_and_the_same_changes_are_kept_once(desk, review):
    key = desk.create(environment=review)["key"]
    desk.run(key, "echo new > file")
    put_away(desk, key)
    desk.post(f"/workspaces/{key}/resume", expect=202)
    assert desk.settled(key)["state"] == "ready"
    assert desk.run(key, "cat file; cat numbers | wc -l") == b"new\n5\n"
    put_away(desk, key)
    assert len(desk.get(f"/workspaces/{key}/artifacts").json["artifacts"]) == 1


def test_without_a_change_there_is_no_patch(desk, manager, review):
    key = desk.create(environment=review)["key"]
    put_away(desk, key)
    assert desk.get(f"/workspaces/{key}/artifacts").json["artifacts"] == []
    told = archived(manager, key)
    assert (told["changes"], told["why"]) == ("", "nothing was changed")

"""At return, a choice: same files, a snapshot, a clean checkout, only the notes; what was there is kept as a fork."""

import json
import subprocess

import pytest

from handrail_verify.signed import verify
from tests.support.visitor import Visitor


@pytest.fixture(scope="module")
def person(product):
    return Visitor.named(product, "rita", "lead")


@pytest.fixture
def asleep(desk, repository):
    """A paused clone with a change and a file that are not committed; its key."""
    path, *_ = repository
    key = desk.create(source={"git": str(path), "ref": "main"})["key"]
    desk.run(key, "echo changed > calc.py; echo mine > mine")
    desk.post(f"/workspaces/{key}/pause", expect=202)
    desk.settled(key)
    return key


def _state(desk, key) -> list:
    """What a refused choice must not change."""
    found = desk.get(f"/workspaces/{key}").json
    return [found["state"], found["busy"], found["head_snapshot"], desk.get(f"/workspaces/{key}/operations").json]


def test_a_clean_checkout_is_todays_branch_and_what_was_there_is_a_fork(desk, repository, asleep):
    path, *_ = repository
    subprocess.run(
        ["git", "-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "-q", "--allow-empty", "-m", "today"],
        cwd=path,
        check=True,
    )
    today = subprocess.run(["git", "rev-parse", "main"], cwd=path, check=True, capture_output=True, text=True).stdout
    told = desk.post(f"/workspaces/{asleep}/return", {"choice": "clean"}, expect=202).json
    came_back = desk.settled(asleep)
    assert came_back["state"] == "ready"
    assert desk.run(asleep, "git rev-parse HEAD; git status --porcelain") == today.encode()
    assert desk.settled(told["kept"])["state"] == "ready"
    assert desk.run(told["kept"], "cat calc.py mine") == b"changed\nmine\n"
    run = desk.get(f"/workspaces/{asleep}/runs").json["runs"][0]["id"]
    manifest = desk.get(f"/workspaces/{asleep}/runs/{run}/manifest").json
    assert (manifest["git"]["sha"], manifest["dirty"]["count"]) == (today.strip(), 0)
    verify(json.dumps(manifest).encode(), desk.get("/manifests/key").json["key"])


def test_the_files_of_a_snapshot_are_there_when_it_is_up(desk, asleep):
    desk.post(f"/workspaces/{asleep}/return", {"choice": "snapshot", "snapshot": 1}, expect=202)
    assert desk.settled(asleep)["state"] == "ready"
    assert desk.run(asleep, "git status --porcelain") == b""


def test_a_person_chooses_on_a_page(desk, person, asleep):
    at = f"/w/main/{asleep}/return/"
    assert "is kept as a fork" in person.get(at)
    person.post(at, {"choice": "same"}, at=at)
    assert desk.settled(asleep)["state"] == "ready"
    assert desk.run(asleep, "cat mine") == b"mine\n"


def test_only_the_notes_are_there_beside_the_source_anew(desk, person, asleep):
    assert "with <code>.handrail/notes.md</code> as it is now" in person.get(f"/w/main/{asleep}/return/")
    desk.post(f"/workspaces/{asleep}/return", {"choice": "same"}, expect=202)
    desk.settled(asleep)
    desk.run(asleep, "mkdir -p .handrail; echo next: the tests > .handrail/notes.md")
    desk.post(f"/workspaces/{asleep}/pause", expect=202)
    desk.settled(asleep)
    told = desk.post(f"/workspaces/{asleep}/return", {"choice": "notes"}, expect=202).json
    assert desk.settled(asleep)["state"] == "ready"
    assert desk.run(asleep, "cat .handrail/notes.md; git status --porcelain") == b"next: the tests\n?? .handrail/\n"
    desk.settled(told["kept"])
    assert desk.run(told["kept"], "cat calc.py mine .handrail/notes.md") == b"changed\nmine\nnext: the tests\n"


def test_only_the_notes_are_left_of_a_workspace_without_a_source(desk):
    key = desk.create()["key"]
    desk.run(key, "mkdir -p .handrail; echo kept > .handrail/notes.md; echo gone > other")
    desk.post(f"/workspaces/{key}/pause", expect=202)
    desk.settled(key)
    told = desk.post(f"/workspaces/{key}/return", {"choice": "notes"}, expect=202).json
    assert desk.settled(key)["state"] == "ready"
    assert desk.run(key, "find . -type f ! -name manifest.json -exec cat {} +") == b"kept\n"
    assert desk.settled(told["kept"])["state"] == "ready"


def test_what_cannot_be_chosen_changes_nothing(desk, asleep):
    before = _state(desk, asleep)
    desk.post(f"/workspaces/{asleep}/return", {"choice": "memory"}, expect=422)
    desk.post(f"/workspaces/{asleep}/return", {"choice": "snapshot"}, expect=422)
    desk.post(f"/workspaces/{asleep}/return", {"choice": "snapshot", "snapshot": 99}, expect=404)
    assert _state(desk, asleep) == before
    empty = desk.create()["key"]
    desk.post(f"/workspaces/{empty}/return", {"choice": "same"}, expect=409)
    desk.post(f"/workspaces/{empty}/pause", expect=202)
    desk.settled(empty)
    desk.post(f"/workspaces/{empty}/return", {"choice": "clean"}, expect=409)
    assert desk.get(f"/workspaces/{empty}").json["state"] == "paused"

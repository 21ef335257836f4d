"""kill -9 of web, runner, queue, supervisor, host process and sandbox at any moment, with commands under way."""

import json
import os
import signal
import subprocess
import time
import uuid
from pathlib import Path

import pytest

from tests.faults.armed_product import new_tag
from tests.support.mounts import NO_FUSE

AT_ONCE = 3  # commands under way


@pytest.mark.parametrize("part", ["web", "runner", "queue", "supervisor"])
def test_a_killed_part_loses_nothing_and_the_pages_are_true_again(desk, chance, seed, one_round, part):
    waiting, tags = desk.ask(new_tag()), [new_tag() for _ in range(AT_ONCE)]
    actions = [desk.ask(tag, seconds=round(chance.uniform(0, 2), 1)) for tag in tags]
    for action in actions:
        assert desk.decide(action, "approve").status == 200
    time.sleep(chance.uniform(0, 2))
    desk.kill(part)
    desk.tells(lambda: desk.action(waiting["id"])["status"] == "pending")
    desk.tells(lambda: f"/actions/{waiting['id']}" in desk.page("/waiting/"))
    for tag, action in zip(tags, actions, strict=True):
        ended = desk.over(action["id"])
        assert (ended["status"], desk.runs_of(tag)) == ("succeeded", 1), f"seed {seed}: {ended}"
    assert desk.decide(waiting, "deny").status == 200
    desk.check(seed)


@pytest.mark.skipif(NO_FUSE != "", reason=NO_FUSE)
def test_the_folder_of_a_snapshot_ends_with_the_runner_that_opened_it(desk):
    address = f"/workspaces/{desk.key}/snapshots/1/folder"
    place = Path(desk.insist("POST", address, desk.person).json["path"])
    assert os.path.ismount(place)
    desk.kill("runner")
    desk.tells(lambda: not place.exists(), within=60)
    assert desk.insist("GET", address, desk.person).json == {"open": None, "why_not": ""}


def test_a_clone_ends_with_the_runner_that_fetched_it(desk):
    """Left alone, git would go on writing into a tree that the next try has begun anew."""
    repository = desk.cartridges / f"slow-{uuid.uuid4().hex}"
    for name in ("objects", "refs"):
        (repository / name).mkdir(parents=True)
    os.mkfifo(repository / "HEAD")  # git waits for it as for a host that sends nothing
    key = f"slow-{uuid.uuid4().hex[:8]}"
    desk.insist("POST", "/workspaces", desk.agent, {"key": key, "source": {"git": str(repository)}})

    def clones() -> set[int]:
        listed = subprocess.run(["ps", "axww", "-o", "pid=,args="], capture_output=True, text=True).stdout
        return {int(line.split()[0]) for line in listed.splitlines() if str(repository) in line}

    desk.tells(lambda: bool(clones()), within=30)
    first = clones()
    desk.kill("runner")
    desk.tells(lambda: not first & clones())
    desk.tells(lambda: bool(clones()), within=30)  # the creation has begun again, as it ran nothing of anybody's
    [operation] = desk.insist("GET", f"/workspaces/{key}/operations", desk.agent).json["operations"]
    desk.insist("POST", f"/workspaces/{key}/operations/{operation['id']}/stop", desk.agent)
    desk.tells(lambda: desk.insist("GET", f"/workspaces/{key}", desk.agent).json["state"] == "failed", within=30)
    assert clones() == set()


def test_a_clone_that_was_through_when_it_was_to_stop_leaves_nothing_either(desk):
    repository, key = desk.cartridges / f"quick-{uuid.uuid4().hex}", f"quick-{uuid.uuid4().hex[:8]}"
    commit = ["-c", "user.name=T", "-c", "user.email=t@example.org", "commit", "--allow-empty", "-qm", "one"]
    for words in (["init", "-q", str(repository)], ["-C", str(repository), *commit]):
        subprocess.run(["git", *words], check=True)
    wish = {"key": key, "source": {"git": str(repository)}}
    with desk.standing_at("create.tree", lambda: desk.insist("POST", "/workspaces", desk.agent, wish)):
        [cloned] = desk.product.home.glob("workspaces/*/tree/.git/packed-refs")
        [operation] = desk.insist("GET", f"/workspaces/{key}/operations", desk.agent).json["operations"]
        told = desk.insist("POST", f"/workspaces/{key}/operations/{operation['id']}/stop", desk.agent)
        assert (told.status, told.json["asked_to_stop"]) == (202, True)
    while (found := desk.insist("GET", f"/workspaces/{key}?wait=5", desk.agent).json)["busy"]:
        pass
    assert (found["state"], found["reason"]) == ("failed", "Cancelled. Nothing was kept.")
    assert list(cloned.parent.parent.iterdir()) == []


def test_a_killed_host_process_is_told_as_unclear_and_nothing_runs_again(desk, seed, one_round):
    tag = new_tag()
    action = desk.ask(tag, seconds=30)
    desk.decide(action, "approve")
    host = desk.host_of(action["id"])
    desk.tells(lambda: desk.runs_of(tag) == 1, within=30)
    os.kill(host, signal.SIGKILL)
    desk.tells(lambda: desk.action(action["id"])["status"] == "uncertain", within=30)
    ended = desk.action(action["id"])
    assert "not run again" in ended["result"]["note"]
    assert desk.runs_of(tag) == 1
    events = desk.insist("GET", "/events?limit=1000", desk.person).json["events"]
    [unclear] = [e for e in events if (e["verb"], e["subject"]["id"]) == ("action.uncertain", action["id"])]
    assert unclear["actor"]["type"] == "agent"
    assert unclear["data"]["approved_by"] not in ("", "runner")
    settled = {"status": "failed", "note": "Its host was killed."}
    assert desk.insist("POST", f"/actions/{action['id']}/outcome", desk.person, settled).status == 200
    desk.check(seed)


def test_a_killed_sandbox_ends_its_programs_and_the_workspace_comes_back(desk):
    tag = new_tag()
    action = desk.ask(tag, seconds=30)
    desk.decide(action, "approve")
    desk.tells(lambda: desk.runs_of(tag) == 1, within=30)
    [operations] = desk.product.home.glob("workspaces/*/tree/operations")  # the file that its commands write
    records = [json.loads(path.read_text()) for path in desk.product.home.glob("runs/*/record.json")]
    [record] = [record for record in records if record["tree"] == str(operations.parent)]
    os.kill(record["pid"], signal.SIGKILL)
    assert desk.over(action["id"])["status"] in ("failed", "uncertain")
    assert desk.runs_of(tag) == 1
    desk.tells(lambda: desk.insist("GET", "/workspaces/bench", desk.agent).json["state"] != "ready", within=30)
    again = new_tag()
    desk.insist("POST", "/workspaces/bench/resume", desk.agent, {})
    assert desk.settled()["state"] == "ready"
    action = desk.ask(again)
    desk.decide(action, "approve")
    assert desk.over(action["id"])["status"] == "succeeded"
    assert (desk.runs_of(tag), desk.runs_of(again)) == (1, 1)

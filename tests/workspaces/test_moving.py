"""A workspace moves between drivers: every byte, name and attribute arrives, and it is resumed if it was up."""

import base64
import json
import uuid

import pytest

from tests.support.desk import Desk
from tests.support.odd_tree import ENTRIES, SCRIPT
from tests.workspaces.drivers.runs import IMAGES, why_not
from tests.workspaces.store.compare_trees import describe


@pytest.fixture(scope="module")
def desk(product):
    """A lead of a team of its own, with an environment of each driver."""
    product.agent_token("mover", team="movers")
    made = {"boxed": {}, "contained": {"driver": "docker", "image": IMAGES["docker"], "minimum_isolation": "container"}}
    product.shell(
        "import json; from dashboard.models import Team; from workspaces.models import Environment;"
        "team = Team.objects.get(slug='movers');"
        f"[Environment.objects.create(team=team, name=name, **fields) for name, fields in {made!r}.items()]"
    )
    return Desk(product, product.person_token("moving-lead", "lead", team="movers"))


@pytest.fixture
def place(desk):
    """A workspace in a sandbox, with all kinds of entries and a home."""
    key = f"odd-{uuid.uuid4().hex[:8]}"
    desk.create(key, environment="boxed")
    script = base64.b64encode(SCRIPT.encode()).decode()
    run(desk, key, f"echo {script} | base64 -d | python3 -; echo mine > ~/of-the-home")
    return key


def run(desk, key, command):
    done = desk.finished(desk.post(f"/workspaces/{key}/commands", {"command": command}).json["id"])
    assert done["exit_status"] == 0, done
    return desk.get(f"/commands/{done['id']}/output").text


def folder_of(desk, key):
    found = desk.product.shell(f"from workspaces.models import Workspace; print(Workspace.objects.get(key={key!r}).pk)")
    return desk.product.home / "workspaces" / found.strip()


def described(folder):
    """Its files but the notes, which each start writes anew."""
    return describe(folder / "tree", without={b".handrail"})


def test_it_goes_from_a_sandbox_into_a_container_and_back(desk, place, require):
    if why := why_not("docker", with_image=True):
        require("docker", why)
    folder = folder_of(desk, place)
    before = described(folder)
    assert len(before[0]) > ENTRIES
    for name, driver in (("contained", "docker"), ("boxed", "sandbox")):
        asked = desk.post(f"/workspaces/{place}/move", {"environment": name}, 202).json
        assert (asked["busy"], asked["environment"]) == ("move", "boxed" if name == "contained" else "contained")
        found = desk.settled(place)
        assert (found["state"], found["driver"], found["environment"]) == ("ready", driver, name), found
        assert (found["proof"]["differ"], found["alarm"]) == (0, {})
        assert described(folder) == before
        assert not (folder / "arriving").exists()
        assert run(desk, place, "cat ~/of-the-home; stat -c %h src/0/1").split() == ["mine", "11"]
    moved = [
        event["data"] for event in desk.get("/events?after=0").json["events"] if event["verb"] == "workspace.moved"
    ]
    mine = [each for each in moved if each["entries"] == found["proof"]["entries"]]
    assert [each["driver"] for each in mine][-2:] == ["docker", "sandbox"]


def test_one_that_is_paused_stays_paused_and_one_that_is_there_already_is_told_so(desk, place):
    desk.post(f"/workspaces/{place}/pause", expect=202)
    desk.settled(place)
    refused = desk.post(f"/workspaces/{place}/move", {}, 409).json
    assert refused["detail"].endswith("under boxed v1 already.")
    desk.post("/environments", {"name": "other", "driver": "sandbox"}, None)
    desk.post(f"/workspaces/{place}/move", {"environment": "other"}, 202)
    found = desk.settled(place)
    assert (found["state"], found["environment"], found["reason"]) == ("paused", "other", "")
    missing = desk.post(f"/workspaces/{place}/move", {"host": "nowhere"}, 404).json
    assert missing["code"] == "host_not_found"
    assert (
        "There is no environment named"
        in desk.post(f"/workspaces/{place}/move", {"environment": "none"}, 422).json["detail"]
    )


def test_what_no_snapshot_can_hold_is_named_and_nothing_moves(desk, place):
    run(desk, place, "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('left')\"")
    desk.post("/environments", {"name": "third", "driver": "sandbox"}, None)
    desk.post(f"/workspaces/{place}/move", {"environment": "third"}, 202)
    found = desk.settled(place)
    assert (found["state"], found["environment"]) in (("ready", "boxed"), ("ready", "third")), json.dumps(found)

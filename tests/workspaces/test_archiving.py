"""Archived: the files leave the host and the snapshots stay; all pages work, and a resume brings everything back."""

import pytest

from tests.support.desk import Desk
from tests.support.visitor import Visitor
from tests.support.waiting import until
from tests.workspaces.drivers.runs import IMAGES, why_not
from tests.workspaces.store.compare_trees import describe
from tests.workspaces.test_life import tree_of

FILL = (
    "mkdir -p deep/er 'a b'; seq 20000 > deep/numbers; head -c 300000 /dev/urandom > deep/er/noise; ln -s deep/numbers "
    "link; ln deep/numbers hard; printf 'x' > 'a b/\u00e9'; chmod 500 deep/er; chmod 640 hard; mkfifo pipe; "
    "touch -d 2001-02-03 old; mkdir -p ~/go/mod; touch ~/go/mod/x; chmod 500 ~/go/mod"
)


@pytest.fixture(params=["sandbox", "docker"])
def wish(request, require) -> dict:
    if request.param == "docker":
        if why := why_not("docker", with_image=True):
            require("docker", why)
        return {"driver": "docker", "image": IMAGES["docker"]}
    return {}


def made(desk, product, **wish):
    """Make a workspace with some files; return (its key, its folder on the host, what its tree is)."""
    key = desk.create(**wish)["key"]
    desk.run(key, f"touch {key}; {FILL}")
    tree = tree_of(product, key)
    return key, tree.parent, files_of(tree)


def files_of(tree):
    return describe(tree, without=(b".handrail",))  # a driver's, not one of the files


def archived(desk, key) -> dict:
    desk.post(f"/workspaces/{key}/archive", expect=202)
    found = desk.settled(key)
    assert (found["state"], found["reason"], found["missing_snapshot"]) == ("archived", "", ""), found
    return found


def test_the_files_leave_the_host_and_a_resume_brings_them_back(desk, product, wish):
    key, folder, before = made(desk, product, **wish)
    archived(desk, key)
    assert [entry.name for entry in folder.iterdir()] == ["programs"]
    desk.post(f"/workspaces/{key}/commands", {"command": "true"}, expect=409)
    desk.post(f"/workspaces/{key}/resume", expect=202)
    back = desk.settled(key)
    assert (back["state"], back["proof"]["differ"], back["alarm"]) == ("ready", 0, {})
    assert back["proof"]["entries"] == len(before[0]) - 1
    assert files_of(folder / "tree") == before
    assert desk.run(key, "cat 'a b/\u00e9'; ls -A ~/go 2>&1 | tail -c 26").startswith(b"x")
    verbs = [event["verb"] for event in desk.get(f"/events?workspace={key}").json["events"]]
    assert [verb for verb in verbs if "archived" in verb] == ["workspace.archived", "workspace.unarchived"]


@pytest.fixture(scope="module")
def put_away(desk, product):
    """An archived workspace that was changed since its setup: (key, its head's number)."""
    key, *_ = made(desk, product)
    desk.post(f"/workspaces/{key}/pause", expect=202)
    desk.settled(key)
    return key, archived(desk, key)["head_snapshot"]


def test_all_of_it_can_be_read_meanwhile(desk, product, put_away):
    key, head = put_away
    assert desk.get(f"/workspaces/{key}/files/old").body == b""
    names = {entry["name"] for entry in desk.get(f"/workspaces/{key}/files/").json["entries"]}
    assert {"deep", "hard", "link", key} <= names
    assert desk.get(f"/workspaces/{key}/diff?from={head}&to=live").json["changes"] == []
    assert desk.get(f"/workspaces/{key}/diff?from=1&to={head}").json["changes"] != []
    assert desk.get(f"/workspaces/{key}/snapshots/{head}/manifest").status == 200
    person = Visitor.named(product, "rita", "lead")
    at = f"/w/main/{key}/"
    tabs = ("", "changes/", "files/", "terminals/", "checks/", "snapshots/", f"snapshots/{head}/", "network/", "runs/")
    for tab in (*tabs, "size/", "export/", f"snapshots/{head}/restore/"):
        assert key in person.get(at + tab), tab
    assert "Resume brings its files back and starts it." in person.get(at)
    assert f"/w/main/{key}/" in person.get("/workspaces/?state=archived")
    assert f"/w/main/{key}/" not in person.get("/workspaces/?state=asleep")
    assert [row["key"] for row in desk.get("/workspaces?state=archived").json["workspaces"]] == [key]
    assert key in person.get(f"/search/?q={key}")


def test_what_needs_its_files_is_refused_and_it_is_forked_from_its_snapshot(desk, put_away):
    key, head = put_away
    calls = ("pause", "stop", "prove", "snapshots", f"snapshots/{head}/restore")
    said = [desk.post(f"/workspaces/{key}/{call}", expect=409).json["detail"] for call in calls]
    assert [f"{key} is archived, so it can't be" in words for words in said] == [True] * len(calls)
    desk.call("PUT", f"/workspaces/{key}/files/new", b"x", expect=409)
    fork = f"{key}-fork"
    desk.post(f"/workspaces/{key}/fork", {"key": fork})
    assert desk.settled(fork)["state"] == "ready"
    assert desk.run(fork, "tail -1 hard; cat 'a b/\u00e9'") == b"20000\nx"
    assert desk.get(f"/workspaces/{key}").json["state"] == "archived"


def test_an_archived_workspace_goes_to_the_trash_and_back(desk, product, put_away, lead_token):
    key, _ = put_away
    Desk(product, lead_token).call("DELETE", f"/workspaces/{key}", expect=202)
    until(lambda: desk.get(f"/workspaces/{key}", expect=None).status == 404)
    Desk(product, lead_token).post(f"/workspaces/{key}/untrash", expect=202)
    assert desk.get(f"/workspaces/{key}").json["state"] == "archived"
    desk.post("/workspaces", {"key": key}, expect=200)  # an agent that asks for it by its key
    assert desk.settled(key)["state"] == "ready"
    assert desk.run(key, "tail -1 hard") == b"20000\n"

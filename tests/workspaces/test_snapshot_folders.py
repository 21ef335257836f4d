"""A snapshot opened as a folder of its host: who may, what is in it, and when it closes."""

import os
from pathlib import Path

import pytest

from tests.support.desk import Desk
from tests.support.mounts import NO_FUSE
from tests.support.visitor import Visitor
from tests.support.waiting import until

pytestmark = pytest.mark.skipif(NO_FUSE != "", reason=NO_FUSE)


@pytest.fixture
def key(desk):
    key = desk.create()["key"]
    desk.run(key, "mkdir d; echo one > a; echo two > d/b; ln -s a link; chmod 600 a; echo TOKEN=1 > .env")
    desk.post(f"/workspaces/{key}/snapshots")
    return key


@pytest.fixture(scope="module")
def reader(product):
    return Desk(product, product.person_token("reader-of-folders", "reviewer"))


def folder(key, number=2):
    return f"/workspaces/{key}/snapshots/{number}/folder"


def test_who_may_read_the_files_may_open_them(desk, reader, key):
    assert reader.get(folder(key)).json == {"open": None, "why_not": ""}
    made = reader.post(folder(key)).json
    place = Path(made["path"])
    assert (made["snapshot"], os.path.ismount(place)) == (2, True)
    assert sorted(os.listdir(place)) == [".env", "a", "d", "link"]
    assert (place / "d" / "b").read_text() == "two\n"
    assert (os.readlink(place / "link"), (place / "a").stat().st_mode & 0o777) == ("a", 0o600)
    with pytest.raises(OSError, match="Read-only"):
        (place / "a").write_text("x")
    assert reader.get(folder(key)).json["open"] == made
    longer = reader.post(folder(key), {"minutes": 600}).json
    assert (longer["path"], longer["until"] > made["until"]) == (made["path"], True)
    desk.run(key, "echo changed > a")
    assert (place / "a").read_text() == "one\n"
    reader.call("DELETE", folder(key), expect=204)
    assert not place.exists()
    reader.call("DELETE", folder(key), expect=404)
    events = [event["verb"] for event in reader.get(f"/events?workspace={key}").json["events"]]
    assert [verb for verb in events if "folder" in verb] == [
        "snapshot.opened_as_folder", "snapshot.opened_as_folder", "snapshot.closed_as_folder"
    ]  # fmt: skip


def test_an_agent_opens_none_and_what_is_asked_has_to_make_sense(desk, reader, key):
    desk.post(folder(key), expect=403)
    desk.get(folder(key), expect=403)
    reader.post(folder(key, 9), expect=404)
    reader.post(folder(key), {"minutes": 0}, expect=422)
    reader.post(folder(key), {"minutes": 1441}, expect=422)


def test_it_closes_when_its_snapshot_is_deleted(product, desk, key):
    desk.post(f"/workspaces/{key}/snapshots")  # the newest always stays
    lead = Desk(product, product.person_token("lead-of-folders", "lead"))
    place = Path(lead.post(folder(key)).json["path"])
    lead.call("DELETE", f"/workspaces/{key}/snapshots/2", expect=202)
    until(lambda: not place.exists(), within=40)
    lead.post(folder(key), expect=409)


def test_the_page_of_the_snapshot_opens_and_closes_it(product, key):
    visitor = Visitor.named(product, "paula", "reviewer")
    page = f"/w/main/{key}/snapshots/2/"
    assert "Open as a folder" in visitor.get(page)
    shown = visitor.post(f"{page}folder/", at=page)
    place = product.home / "snapshots" / "main" / key / "2"
    assert str(place) in shown
    assert os.path.ismount(place)
    assert "Open as a folder" in visitor.post(f"{page}folder/close/", at=page)
    assert not place.exists()

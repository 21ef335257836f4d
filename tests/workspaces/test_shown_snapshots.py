"""Programs of a workspace that was resumed with snapshots read them at /snapshots/NUMBER."""

import uuid
from pathlib import Path

import pytest

from tests.support.desk import Desk
from tests.support.mounts import NO_FUSE
from tests.support.waiting import until

needs_fuse = pytest.mark.skipif(NO_FUSE != "", reason=NO_FUSE)


def mounts(product):
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(product.home) in line]


@needs_fuse
def test_programs_read_them_but_no_secrets_until_the_workspace_is_paused(product, desk):
    before = mounts(product)
    key = desk.create()["key"]
    desk.run(key, "mkdir d; echo one > d/a; echo TOKEN=1 > .env; ln .env linked; ln -s a d/link; chmod 640 d/a")
    taken = desk.post(f"/workspaces/{key}/snapshots").json["number"]
    desk.run(key, "rm -r d linked; echo later > later")
    desk.post(f"/workspaces/{key}/pause", expect=202)
    desk.settled(key)
    desk.post(f"/workspaces/{key}/resume", {"snapshots": [1, taken]}, expect=202)
    desk.settled(key)
    assert desk.run(key, "ls -A /snapshots").split() == [b"1", b"%d" % taken]
    at = f"/snapshots/{taken}"
    assert desk.run(key, f"ls -A {at}; cat {at}/d/a; readlink {at}/d/link").split() == [b"d", b"one", b"a"]
    assert desk.run(key, f"stat -c '%a %U' {at}/d/a; ls /workspace").split() == [b"640", b"agent", b"later"]
    desk.run(key, f"echo x > {at}/d/a", expect_exit=1)
    assert len(mounts(product)) == len(before) + 2
    desk.post(f"/workspaces/{key}/pause", expect=202)
    desk.settled(key)
    until(lambda: mounts(product) == before)
    desk.post(f"/workspaces/{key}/resume", expect=202)
    desk.settled(key)
    desk.run(key, "test ! -e /snapshots")


@needs_fuse
def test_a_collection_keeps_what_a_run_shows(product, desk):
    key = desk.create()["key"]
    desk.run(key, "head -c 3000000 /dev/urandom > large")
    taken = desk.post(f"/workspaces/{key}/snapshots").json
    desk.run(key, "rm large")
    desk.post(f"/workspaces/{key}/pause", expect=202)
    desk.settled(key)
    desk.post(f"/workspaces/{key}/resume", {"snapshots": [taken["number"]]}, expect=202)
    desk.settled(key)
    before = desk.run(key, f"md5sum < /snapshots/{taken['number']}/large")
    [_held] = product.home.glob(f"stores/*/holds/{taken['tree']}.kept")
    assert desk.run(key, f"md5sum < /snapshots/{taken['number']}/large") == before


def test_what_cannot_be_shown_is_refused_in_words(product, desk):
    key = desk.create()["key"]
    answer = desk.post(f"/workspaces/{key}/resume", {"snapshots": [1]}, expect=409).json
    assert "is up already" in answer["detail"]
    desk.post(f"/workspaces/{key}/pause", expect=202)
    desk.settled(key)
    desk.post(f"/workspaces/{key}/resume", {"snapshots": [77]}, expect=404)
    desk.post(f"/workspaces/{key}/resume", {"snapshots": list(range(1, 10))}, expect=422)


@pytest.mark.parametrize(("driver", "words"), [("docker", "engine of containers"), ("microvm", "A guest reaches no")])
def test_other_drivers_say_why_they_show_none(product, desk, driver, words):
    lead = Desk(product, product.person_token("lead-of-shown", "lead"))
    if driver not in [each["name"] for each in desk.get("/drivers").json["drivers"] if each["available"]]:
        pytest.skip(f"no {driver} here")
    name = f"{driver}-{uuid.uuid4().hex[:6]}"
    lead.post("/environments", {"name": name, "driver": driver})
    made = desk.post("/workspaces", {"key": f"shown-{name}", "environment": name}).json["key"]
    answer = desk.post(f"/workspaces/{made}/resume", {"snapshots": [1]}, expect=409).json
    assert words in answer["detail"]

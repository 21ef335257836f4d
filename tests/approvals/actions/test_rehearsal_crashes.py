"""kill -9 of the runner while a command is tried, and while its result is applied: the old files or the new ones."""

import os
import time
import urllib.error
from pathlib import Path

import pytest

from tests.approvals.actions.test_rehearsals import Rehearsing
from tests.approvals.actions.test_rehearsals_elsewhere import WISHES, begin
from tests.support.mounts import NO_FUSE
from tests.support.product import Product

from ..conftest import ACTIONS

TRIED = ("rehearse.copied", "rehearse.started", "rehearse.ran", "rehearse.stored")
MOUNTED = "rehearse.mounted"  # where nothing is copied: the snapshot is mounted, and no overlay lies over it yet
APPLIED = ("restore.frozen", "apply.consumed", "apply.placed")
FILES = 20
at_every_point = pytest.mark.parametrize("desk", ["sandbox", "docker"], indirect=True)
# An emulated guest takes minutes for what a folder does in seconds, so it is killed at one point of each.
in_a_guest = pytest.mark.parametrize("desk", ["microvm"], indirect=True)


@pytest.fixture(scope="module")
def desk(request, tmp_path_factory, require):
    folder = tmp_path_factory.mktemp("crashes")
    armed = {"HANDRAIL_FAILPOINT": ",".join(f"{point}:{folder / point}" for point in (*TRIED, MOUNTED, *APPLIED))}
    if request.param in WISHES:
        desk = begin(request.param, folder / "home", require, **armed)
    else:
        product = Product(folder / "home", HANDRAIL_HELD="1", **armed)
        product.start()
        desk = Rehearsing(product)
    yield desk
    desk.product.clean_up()


@pytest.fixture
def arm(desk):
    """`arm(point)`: the runner is killed there, once. Returns a function that says whether it was."""
    folder = desk.product.home.parent

    def load(point):
        (folder / point).touch()
        return lambda: not (folder / point).exists()

    return load


def until(look, within=180):
    """What `look()` returns once that is true; the runner may be away for a while."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            if found := look():
                return found
        except (OSError, urllib.error.URLError, AssertionError):
            pass
        time.sleep(0.25)
    raise AssertionError("it never came true")


@at_every_point
@pytest.mark.parametrize("point", TRIED)
def test_killed_while_it_is_tried(desk, arm, point):
    kill_while_it_is_tried(desk, arm, point)


@pytest.mark.skipif(NO_FUSE != "" or os.geteuid() != 0, reason=NO_FUSE or "only root mounts overlays")
@pytest.mark.parametrize("desk", ["sandbox"], indirect=True)
@pytest.mark.parametrize("point", [MOUNTED, *TRIED])
def test_killed_with_an_overlay_nothing_stays_mounted(desk, arm, point):
    kill_while_it_is_tried(desk, arm, point)
    mounted = Path("/proc/self/mounts").read_text()
    assert [line for line in mounted.splitlines() if str(desk.product.home) in line] == []


@in_a_guest
def test_killed_while_it_is_tried_in_a_guest(desk, arm):
    kill_while_it_is_tried(desk, arm, "rehearse.ran")


def kill_while_it_is_tried(desk, arm, point):
    desk.put("kept", b"as it was\n")
    asked = desk.ask_for("rm kept; echo made > made")
    before, was_hit = desk.content(), arm(point)
    assert desk.rehearse(asked)["status"] == "failed"
    assert was_hit()
    assert (desk.content(), desk.leftovers()) == (before, [])
    found = until(lambda: desk.rehearse(asked))
    assert (found["status"], found["change_count"]) == ("done", 2)
    desk.decide(asked, "deny")
    assert (desk.content(), desk.leftovers()) == (before, [])


@at_every_point
@pytest.mark.parametrize("point", APPLIED)
def test_killed_while_its_result_is_applied(desk, arm, point):
    kill_while_its_result_is_applied(desk, arm, point)


@in_a_guest
def test_killed_while_its_result_is_applied_in_a_guest(desk, arm):
    kill_while_its_result_is_applied(desk, arm, "apply.placed")


def kill_while_its_result_is_applied(desk, arm, point):
    for number in range(FILES):
        desk.put(f"many/{number}", b"old\n")
    before = desk.content()
    asked = desk.ask_for("for file in many/*; do echo new > $file; done; rm many/3; echo $RANDOM > many/more")
    found = desk.rehearse(asked)
    was_hit = arm(point)
    desk.decide(asked, apply="rehearsal", rehearsal=found["id"])
    action = until(lambda: (now := desk.ok("GET", f"{ACTIONS}/{asked['id']}"))["status"] in ("succeeded",) and now)
    assert was_hit()
    after = desk.content()
    changed = {path for path in before | after if before.get(path) != after.get(path)}
    assert changed == {"many/more", *(f"many/{number}" for number in range(FILES))}
    assert ("many/3" in after, after["many/4"][1]) == (False, b"new\n")
    assert (action["rehearsal"]["status"], desk.leftovers()) == ("applied", [])
    desk.put("many/3", b"programs go on\n")
    desk.run("rm many/3")

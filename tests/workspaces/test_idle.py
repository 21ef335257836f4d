"""A workspace with nothing to do goes to sleep, and use wakes it."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.desk import Desk
from tests.support.product import Product
from tests.support.waiting import until
from tests.workspaces.drivers.runs import IMAGES, OPTIONS, why_not


@pytest.fixture(scope="module")
def drowsy(tmp_path_factory):
    """A desk of a product whose workspaces sleep after five seconds, stop when they have slept for ten, and are kept by
    time when they are up for six."""
    times = {"HANDRAIL_IDLE_SECONDS": "5", "HANDRAIL_STOP_SECONDS": "10", "HANDRAIL_SNAPSHOT_SECONDS": "6"}
    times |= {"HANDRAIL_DOCKER_HOST": OPTIONS["docker"]["address"]} if OPTIONS["docker"]["address"] else {}
    # A host of four gigabytes, as far as promises go: the test of a full one needs no more.
    product = Product(tmp_path_factory.mktemp("drowsy"), HANDRAIL_PROMISED_MEMORY=str(4 * 1024**3), **times)
    try:
        product.start()
        yield Desk(product, product.agent_token())
    finally:
        product.clean_up()


def _asleep(desk, key, within, state="paused"):
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if desk.get(f"/workspaces/{key}").json["state"] in (state, "stopped"):
            return True
        time.sleep(0.5)
    return False


def _snapshots(desk, key):
    return desk.get(f"/workspaces/{key}/snapshots").json["snapshots"]


@pytest.mark.parametrize("driver", ["sandbox", "docker"])
def test_an_idle_workspace_sleeps_with_a_snapshot_and_a_command_wakes_it(drowsy, require, driver):
    if driver == "docker" and (why := why_not("docker", with_image=True)):
        require("docker", why)
    key = drowsy.create(driver=driver, **({"image": IMAGES["docker"]} if driver == "docker" else {}))["key"]
    drowsy.run(key, "echo kept > file")
    assert _asleep(drowsy, key, 60)
    assert _snapshots(drowsy, key)[0]["kind"] == "end"
    assert drowsy.run(key, "cat file") == b"kept\n"


def test_one_that_is_to_stay_awake_does_and_one_that_slept_for_long_is_stopped(drowsy):
    kept, left = drowsy.create()["key"], drowsy.create()["key"]
    later = datetime.now(UTC) + timedelta(hours=1)
    told = drowsy.call("PUT", f"/workspaces/{kept}/awake", {"until": later.isoformat()}).json
    assert datetime.fromisoformat(told["awake_until"]) == later.replace(microsecond=later.microsecond // 1000 * 1000)
    drowsy.call("PUT", f"/workspaces/{kept}/awake", {"until": "2020-01-01T00:00:00Z"}, 422)
    drowsy.run(kept, "echo by time > file")  # and what it does meanwhile is kept
    taken = until(lambda: [row for row in _snapshots(drowsy, kept) if row["kind"] == "periodic"])
    assert drowsy.get(f"/workspaces/{kept}/files/file?snapshot={taken[-1]['number']}").body == b"by time\n"
    assert _asleep(drowsy, left, 90, "stopped")
    assert drowsy.get(f"/workspaces/{kept}").json["state"] == "ready"
    # A stopped one is not woken by use, only by request.
    drowsy.post(f"/workspaces/{left}/commands", {"command": "true"}, 409)
    drowsy.call("PUT", f"/workspaces/{kept}/awake", {"until": None})
    assert _asleep(drowsy, kept, 60)


def test_a_host_that_is_full_says_so_and_changes_nothing(drowsy):
    script = (
        "from dashboard.models import Team; from workspaces.models import Environment;"
        "team = Team.objects.get(slug='main');"
        "Environment.objects.create(team=team, name='large', limits={'memory_bytes': 3 * 1024**3})"
    )
    drowsy.product.shell(script)
    first = drowsy.create(environment="large")["key"]
    drowsy.call("PUT", f"/workspaces/{first}/awake", {"until": (datetime.now(UTC) + timedelta(hours=1)).isoformat()})
    refused = drowsy.post("/workspaces", {"key": "one-more", "environment": "large"}, 503).json
    assert refused["detail"].startswith("This host is full: of 4.0")
    drowsy.get("/workspaces/one-more", 404)
    drowsy.post(f"/workspaces/{first}/stop", expect=202)
    drowsy.settled(first)
    assert drowsy.create("one-more", environment="large")["state"] == "ready"
    drowsy.post(f"/workspaces/{first}/resume", expect=503)
    assert drowsy.get(f"/workspaces/{first}").json["state"] == "stopped"


def test_a_command_that_runs_keeps_it_awake_and_an_open_shell_does_not(drowsy):
    busy, idle = drowsy.create()["key"], drowsy.create()["key"]
    asked = drowsy.post(f"/workspaces/{busy}/commands", {"command": "sleep 60"}).json
    drowsy.post(f"/workspaces/{idle}/terminals", {"argv": ["cat"]})
    assert _asleep(drowsy, idle, 60)
    assert drowsy.get(f"/workspaces/{busy}").json["state"] == "ready"
    drowsy.post(f"/commands/{asked['id']}/cancel", expect=202)
    drowsy.finished(asked["id"])

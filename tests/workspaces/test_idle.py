"""A workspace with nothing to do goes to sleep, and use wakes it."""

import time

import pytest

from tests.product import Product
from tests.workspaces.conftest import Desk


@pytest.fixture(scope="module")
def drowsy(tmp_path_factory):
    """A desk of a product whose workspaces sleep after five seconds."""
    product = Product(tmp_path_factory.mktemp("drowsy"), HANDRAIL_IDLE_SECONDS="5")
    try:
        product.start()
        yield Desk(product, product.agent_token())
    finally:
        product.clean_up()


def _asleep(desk, key, within):
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        if desk.get(f"/workspaces/{key}").json["state"] == "paused":
            return True
        time.sleep(0.5)
    return False


def test_it_sleeps_with_a_snapshot_and_a_command_wakes_it(drowsy):
    key = drowsy.create()["key"]
    drowsy.run(key, "echo kept > file")
    assert _asleep(drowsy, key, 40)
    assert drowsy.get(f"/workspaces/{key}/snapshots").json["snapshots"][0]["kind"] == "end"
    assert drowsy.run(key, "cat file") == b"kept\n"


def test_a_command_that_runs_keeps_it_awake_and_an_open_shell_does_not(drowsy):
    busy, idle = drowsy.create()["key"], drowsy.create()["key"]
    asked = drowsy.post(f"/workspaces/{busy}/commands", {"command": "sleep 60"}).json
    drowsy.post(f"/workspaces/{idle}/terminals", {"argv": ["cat"]})
    assert _asleep(drowsy, idle, 40)
    assert drowsy.get(f"/workspaces/{busy}").json["state"] == "ready"
    drowsy.post(f"/commands/{asked['id']}/cancel", expect=202)
    drowsy.finished(asked["id"])

"""Two hosts over one database: a runner that was stopped for longer than its lease comes back, and is refused."""

import os
import shutil
import signal
import subprocess
import sys

from tests.support import CHECKOUT
from tests.support.product import Product
from tests.support.waiting import until
from workspaces.drivers.base import RunRecord
from workspaces.drivers.processes import start_time


def state_of(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]


def test_what_a_silent_host_had_claimed_is_done_by_another_and_the_old_epoch_is_refused(tmp_path):
    cartridge = tmp_path / "stop"
    database = f"sqlite:///{tmp_path}/shared.sqlite3"
    shared = {"DATABASE_URL": database, "HANDRAIL_LEASE_SECONDS": "5"}
    first = Product(tmp_path / "a", HANDRAIL_HOST_NAME="a", HANDRAIL_FAILPOINT=f"K6=stop:{cartridge}", **shared)
    other = Product(tmp_path / "b", HANDRAIL_HOST_NAME="b", **shared)
    second = None
    try:
        first.start()
        token = first.agent_token()
        runner = first.part_pid("runner")
        shutil.copytree(first.home / "keys", other.home / "keys")
        cartridge.touch()
        assert first.post("/api/v1/workspaces", token, {"key": "shared"}).status == 201
        until(lambda: state_of(runner) == "T")  # it has claimed the creation, and not begun it
        with open(tmp_path / "b.log", "wb") as log:
            second = subprocess.Popen(
                [sys.executable, "manage.py", "runner"], cwd=CHECKOUT, env=other.environment, stdout=log, stderr=log
            )
        until(lambda: _state_and_busy(first, token) == ("ready", None))  # `busy` is read before the state
        os.kill(runner, signal.SIGCONT)
        events = until(lambda: _refusals(first, token))
        assert [(event["data"]["kind"], event["data"]["epoch"]) for event in events] == [("create", 1)]
        # The second host has it, and nothing of it was done on the first one.
        [record] = other.home.glob("runs/*/record.json")
        owner = RunRecord.from_json(record.read_text())
        assert start_time(owner.pid) == owner.start_time
        assert not list(first.home.glob("runs/*/record.json"))
        assert not list(first.home.glob("workspaces/*/tree"))
        assert first.get("/api/v1/workspaces/shared", token).json["state"] == "ready"
        assert len(first.get("/api/v1/workspaces/shared/runs", token).json["runs"]) == 1
    finally:
        if second is not None:
            second.terminate()
            second.wait(20)
        other.clean_up()
        first.clean_up()


def _state_and_busy(product, token):
    found = product.get("/api/v1/workspaces/shared", token).json
    return found["state"], found["busy"]


def _refusals(product, token):
    lead = product.person_token("lia", "lead")
    found = product.get("/api/v1/events?after=0", lead).json["events"]
    return [event for event in found if event["verb"] == "operation.refused"]


def test_a_second_installation_with_the_name_of_the_first_does_not_start(tmp_path):
    shared = {"DATABASE_URL": f"sqlite:///{tmp_path}/shared.sqlite3", "HANDRAIL_HOST_NAME": "same"}
    first, second = Product(tmp_path / "a", **shared), Product(tmp_path / "b", **shared)
    try:
        first.start()
        token = first.agent_token()
        assert first.post("/api/v1/workspaces", token, {"key": "kept"}).status == 201
        until(lambda: first.get("/api/v1/workspaces/kept", token).json["state"] == "ready")
        for command in ("up", "runner"):
            tried = subprocess.run(
                [sys.executable, "manage.py", command],
                cwd=CHECKOUT,
                env=second.environment,
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert tried.returncode == 1
            assert f"Another Handrail (home {first.home}" in tried.stderr + tried.stdout
        assert first.get("/readyz").status == 200
        assert first.get("/api/v1/workspaces/kept", token).json["state"] == "ready"
    finally:
        second.clean_up()
        first.clean_up()

"""`manage.py down`: all that is up is stopped, with a snapshot or with a message about a missing one; then `up` again.

One product goes through it once, with a workspace of each driver; the tests look at what was seen of each.
"""

import fcntl
import os
import shutil
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.management import call_command
from django.db import connection

from dashboard.database import clock
from dashboard.management.commands import down
from dashboard.models import Team
from tests.support.desk import Desk
from tests.support.product import Product
from tests.support.waiting import until
from tests.workspaces.drivers.runs import IMAGES, NOBODY, OPTIONS, why_not
from workspaces.drivers.base import RunRecord
from workspaces.drivers.processes import start_time
from workspaces.models import Environment, Operation, Phase, Runner, State, Workspace

DRIVERS = ("sandbox", "folder", "docker", "microvm")


@dataclass
class Seen:
    """What there was of one workspace before `down`, after it, and after the next `up`."""

    key: str
    desk: Desk
    command: str = ""
    owner: RunRecord | None = None
    down: dict = field(default_factory=dict)
    up: dict = field(default_factory=dict)

    def look(self) -> dict:
        return self.desk.get(f"/workspaces/{self.key}").json

    def move(self, verb: str) -> dict:
        self.desk.post(f"/workspaces/{self.key}/{verb}", expect=202)
        return self.desk.settled(self.key)


@pytest.fixture(scope="module")
def product(tmp_path_factory):
    settings = {"HANDRAIL_DOCKER_HOST": OPTIONS["docker"]["address"]} if OPTIONS["docker"]["address"] else {}
    running = Product(tmp_path_factory.mktemp("down"), **settings)
    if images := OPTIONS["microvm"]["images"]:
        (running.home / "images").mkdir(parents=True)
        (running.home / "images" / "microvm").symlink_to(images)
    try:
        running.start()
        yield running
    finally:
        running.clean_up()


@pytest.fixture(scope="module")
def own_folder():
    """A folder of somebody who is not root: what belongs to root runs nothing."""
    folder = Path(tempfile.mkdtemp(prefix="own-", dir="/var/tmp"))
    folder.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def told(product, own_folder):
    """What happened: {driver: Seen}, one that had to owe its snapshot, and what `down` said with and without `up`."""
    lead = Desk(product, product.person_token("lena", "lead"))
    lead.looks = 120  # an emulated guest boots slowly on a busy machine
    seen = {name: Seen(made(lead, name, own_folder), lead) for name in DRIVERS if not why_not(name, with_image=True)}
    for one in seen.values():
        lead.run(one.key, "echo kept > kept")
        one.command = lead.post(f"/workspaces/{one.key}/commands", {"command": "echo on; exec sleep 600"}).json["id"]
        until(lambda one=one: lead.get(f"/commands/{one.command}/output").body == b"on\n")
        one.owner = owner_of(one)
    owing, store = one_that_will_owe(product)
    passing = one_that_passes(lead)
    said = product.manage("down", timeout=300)
    for one in (*seen.values(), owing, passing):
        one.down = one.look()

    # One is up again, and goes down while nobody is there who could stop it.
    assert seen["sandbox"].move("resume")["state"] == "ready"
    product.stop()
    alone = product.manage("down", timeout=300)
    store.unlink()
    store.with_name("aside").rename(store)
    product.start()
    until(lambda: seen["sandbox"].look()["state"] == "stopped")
    for one in (*seen.values(), owing):
        one.up = one.move("resume")
    return SimpleNamespace(seen=seen, owing=owing, passing=passing, said=said, alone=alone)


def made(lead, name: str, folder: Path) -> str:
    if name == "folder":
        done = lead.product.manage("connect", "claude-code", str(folder), "--key", "own")
        assert done.returncode == 0, done.stderr
        return "own"
    found = lead.create(driver=name, **({"image": IMAGES[name]} if name == "docker" else {}))
    assert found["state"] == "ready", found["reason"]
    return found["key"]


def owner_of(one: Seen) -> RunRecord:
    [run] = [run for run in one.desk.get(f"/workspaces/{one.key}/runs").json["runs"] if run["ended_at"] is None]
    return RunRecord.from_json((one.desk.product.home / "runs" / run["id"] / "record.json").read_text())


def one_that_will_owe(product) -> tuple[Seen, Path]:
    """A workspace of another team, whose store is not there when its snapshot is to be taken."""
    desk = Desk(product, product.agent_token("owing", team="owing"))
    before = set(product.home.glob("stores/*"))
    owing = Seen(desk.create()["key"], desk)
    desk.run(owing.key, "echo kept > kept")
    [store] = set(product.home.glob("stores/*")) - before
    store.rename(store.with_name("aside"))
    store.write_text("no store\n")
    return owing, store


def one_that_passes(lead) -> Seen:
    """A workspace of an ephemeral environment, with a change."""
    lead.post("/environments", {"name": "passing", "driver": "sandbox", "ephemeral": True})
    passing = Seen(lead.create(environment="passing")["key"], lead)
    lead.run(passing.key, "echo kept > kept")
    return passing


@pytest.fixture(params=DRIVERS)
def one(request, require, told) -> Seen:
    if request.param not in told.seen:
        require(request.param, why_not(request.param, with_image=True))
    return told.seen[request.param]


def test_a_workspace_after_down_has_no_process_and_a_snapshot(told, one):
    assert f"{one.key}: stopped\n" in told.said.stdout
    assert (one.down["state"], one.down["missing_snapshot"], one.down["busy"]) == ("stopped", "", None)
    assert start_time(one.owner.pid) != one.owner.start_time
    assert not (one.desk.product.home / "runs" / one.owner.run_id).exists()
    done = one.desk.get(f"/commands/{one.command}").json
    assert (done["state"], done["exit_status"], bool(done["reason"])) == ("settled", None, True)
    newest = one.desk.get(f"/workspaces/{one.key}/snapshots").json["snapshots"]
    assert "end" in [row["kind"] for row in newest]
    kept = one.desk.get(f"/workspaces/{one.key}/files/kept?snapshot={one.down['head_snapshot']}")
    assert kept.body == b"kept\n"


def test_the_next_up_has_it_as_it_was(one):
    assert (one.up["state"], one.up["alarm"], one.up["missing_snapshot"]) == ("ready", {}, "")
    assert one.up["proof"]["differ"] == 0
    assert one.desk.run(one.key, "cat kept") == b"kept\n"


def test_a_missing_snapshot_is_named_and_taken_later(told):
    owing = told.owing
    assert told.said.returncode == 1
    assert f"{owing.key}: stopped. A snapshot could not be taken yet: " in told.said.stderr
    assert owing.key not in told.said.stdout
    assert (owing.down["state"], bool(owing.down["missing_snapshot"])) == ("stopped", True)
    assert (owing.up["state"], owing.up["missing_snapshot"], owing.up["proof"]["differ"]) == ("ready", "", 0)
    kept = owing.desk.get(f"/workspaces/{owing.key}/files/kept?snapshot={owing.up['head_snapshot']}")
    assert kept.body == b"kept\n"


def test_an_ephemeral_one_is_archived_before_the_command_ends(told):
    passing = told.passing
    assert f"{passing.key}: stopped and archived\n" in told.said.stdout
    assert passing.down["state"] == "archived"
    [patch] = passing.desk.get(f"/workspaces/{passing.key}/artifacts").json["artifacts"]
    assert patch["name"] == f"{passing.key}-changes"


def test_without_anybody_who_could_stop_it_that_is_reported_and_done_at_the_next_start(told):
    key = told.seen["sandbox"].key
    assert (told.alone.returncode, told.alone.stdout) == (1, "")
    assert (
        f"{key}: the runner did not respond. Is `make up` running? The workspace stops once it is." in told.alone.stderr
    )


@pytest.mark.django_db(transaction=True)
def test_a_runner_that_is_too_busy_for_its_heart_is_waited_for(settings, tmp_path, monkeypatch, capsys):
    settings.HANDRAIL_HOME = tmp_path
    monkeypatch.setattr(down, "ALIVE_CHECK_INTERVAL", 0.2)
    team = Team.objects.create(slug="main", name="Main")
    runner = Runner.objects.create(host=settings.HANDRAIL_HOST_NAME, heartbeat_at=clock.now() - timedelta(minutes=2))
    environment = Environment.objects.create(team=team, name="default")
    Workspace.objects.create(team=team, key="up", environment=environment, state=State.READY, runner=runner)

    def carry_out():
        until(Operation.objects.exists)
        time.sleep(1)
        Operation.objects.update(phase=Phase.SETTLED, outcome={"ok": True, "missing_snapshot": ""})
        connection.close()

    with (tmp_path / "runner.lock").open("w") as lock, ThreadPoolExecutor(1) as busy:
        fcntl.flock(lock, fcntl.LOCK_EX)
        carried_out = busy.submit(carry_out)
        call_command("down")
        carried_out.result()
    assert capsys.readouterr().out == "up: stopped\n"

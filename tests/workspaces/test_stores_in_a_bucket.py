"""The product with HANDRAIL_BUCKET: snapshots of all teams are in a bucket, and nothing of a page or call changes."""

import itertools
import json
import shutil
import subprocess
import sys

import pytest

from tests.support import CHECKOUT
from tests.support.buckets import s3rver, seaweed
from tests.support.desk import Desk
from tests.support.product import Product
from tests.support.waiting import until

PREFIXES = itertools.count()


def bucket_of(s3) -> str:
    return s3.address(f"product-{next(PREFIXES)}")


@pytest.fixture(scope="module")
def bucket(s3):
    return bucket_of(s3)


@pytest.fixture(scope="module")
def kept(s3, bucket, tmp_path_factory):
    """A product whose snapshots are in the bucket, from an empty home."""
    product = Product(tmp_path_factory.mktemp("bucket") / "home", HANDRAIL_BUCKET=bucket, **s3.environ)
    try:
        product.start()
        yield product
    finally:
        product.clean_up()


@pytest.fixture(scope="module")
def desk(kept):
    return Desk(kept, kept.agent_token("bucket"))


@pytest.fixture(scope="module")
def engine(s3, tmp_path_factory):
    """The engine alone, as on another host that has only the address and the key."""
    environ = s3.environ | {"HOME": str(tmp_path_factory.mktemp("another-host"))}

    def run(*arguments):
        command = [sys.executable, "-m", "workspaces.store", *map(str, arguments)]
        return subprocess.run(command, cwd=CHECKOUT, env=environ, capture_output=True, text=True)

    return run


def stores_of(s3, bucket):
    prefix = bucket.removeprefix("s3://").partition("/")[2]
    names = {found.name.partition("/")[0] for found in s3.client(prefix).ls("stores")}
    return [f"{bucket}/stores/{name}" for name in sorted(names)]


def test_a_life_in_the_bucket(s3, bucket, kept, desk, engine, tmp_path):
    key = desk.create()["key"]
    desk.run(key, "mkdir d; echo one > d/a; head -c 300000 /dev/urandom > noise; ln d/a hard")
    first = desk.post(f"/workspaces/{key}/snapshots", {"label": "first"}).json["number"]
    noise = desk.get(f"/workspaces/{key}/files/noise").body
    desk.run(key, "echo two > d/a; rm noise")
    second = desk.post(f"/workspaces/{key}/snapshots", {"label": "second"}).json["number"]

    changes = desk.get(f"/workspaces/{key}/diff?from={first}&to={second}").json["changes"]
    kinds = {change["path"]: change["kind"] for change in changes}
    assert (kinds["d/a"], kinds["noise"]) == ("modified", "removed")
    fork = desk.post(f"/workspaces/{key}/fork", {"key": f"{key}-fork", "snapshot": first}).json["key"]
    assert desk.settled(fork)["state"] == "ready"
    assert desk.get(f"/workspaces/{fork}/files/noise").body == noise
    desk.post(f"/workspaces/{key}/snapshots/{first}/restore", expect=202)
    assert desk.settled(key)["state"] == "ready"
    assert desk.get(f"/workspaces/{key}/files/d/a").body == b"one\n"

    assert not (kept.home / "stores").exists()
    shutil.rmtree(kept.home / "cache" / "stores")
    assert desk.get(f"/workspaces/{key}/files/noise?snapshot={first}").body == noise
    assert desk.get(f"/workspaces/{key}/files/d/a?snapshot={second}").body == b"two\n"
    desk.run(key, "echo three > d/a")
    third = desk.post(f"/workspaces/{key}/snapshots", {"label": "third"}).json["number"]
    assert desk.get(f"/workspaces/{key}/files/d/a?snapshot={third}").body == b"three\n"

    [store] = stores_of(s3, bucket)
    checked = engine("verify", "--full", store)
    assert (checked.returncode, json.loads(checked.stdout)["ok"]) == (0, True), checked.stderr


def test_an_archived_workspace_comes_back_from_the_bucket(kept, desk):
    key = desk.create()["key"]
    desk.run(key, "echo kept > kept")
    desk.post(f"/workspaces/{key}/archive", expect=202)
    assert desk.settled(key)["state"] == "archived"
    shutil.rmtree(kept.home / "cache" / "stores")
    desk.post(f"/workspaces/{key}/resume", expect=202)
    assert desk.settled(key)["state"] == "ready"
    assert desk.get(f"/workspaces/{key}/files/kept").body == b"kept\n"


def test_the_store_is_checked_collected_and_repaired_there(kept, desk):
    key = desk.create()["key"]
    desk.run(key, "echo kept > kept")
    number = desk.post(f"/workspaces/{key}/snapshots").json["number"]
    lead = Desk(kept, kept.person_token("keeper", "admin"))
    for work in ("check", "collect", "repair"):
        lead.post(f"/storage/{work}", {"full": True} if work == "check" else {}, expect=202)
        done = until(lambda work=work: ended(lead, work))
        assert (done["ok"], done["outcome"].get("ok")) == (True, True), done
    assert desk.get(f"/workspaces/{key}/files/kept?snapshot={number}").body == b"kept\n"


def ended(lead, work):
    found = lead.get("/storage").json["work"].get(work)
    return found if found and found["ended_at"] else None


def test_readyz_and_doctor_speak_of_the_bucket(kept):
    parts = {part["part"]: part for part in kept.get("/readyz").json}
    assert (parts["bucket"]["ok"], parts["store"]["ok"]) == (True, True)
    said = kept.manage("doctor").stdout
    assert "It keeps what snapshots rely on." in said


def test_a_backup_has_the_heads_and_not_the_packs(kept, desk, bucket, tmp_path):
    key = desk.create()["key"]
    desk.run(key, "head -c 3000000 /dev/urandom > noise")
    desk.post(f"/workspaces/{key}/snapshots")
    done = kept.manage("backup", str(tmp_path / "backup"))
    assert done.returncode == 0, done.stderr
    manifest = json.loads((tmp_path / "backup" / "manifest.json").read_text())
    [head] = manifest["stores"].values()
    assert head["address"].startswith(f"{bucket}/stores/")
    assert (head["generation"] > 1, len(head["id"]), bool(head["etag"])) == (True, 32, True)


def test_a_database_of_yesterday_opens_a_bucket_of_today(s3, new_product, tmp_path):
    """What the bucket has since the backup is not missed: what the database names is there, and work goes on."""
    where = {"HANDRAIL_BUCKET": bucket_of(s3), **s3.environ}
    lost = new_product(**where)
    lost.start()
    desk = Desk(lost, agent := lost.agent_token("yesterday"))
    key = desk.create()["key"]
    desk.run(key, "echo one > a; echo kept > kept")
    first = desk.post(f"/workspaces/{key}/snapshots").json["number"]
    assert lost.manage("backup", str(tmp_path / "backup")).returncode == 0
    desk.run(key, "echo two > a; rm kept; head -c 3000000 /dev/urandom > noise")
    desk.post(f"/workspaces/{key}/snapshots")
    keeper = Desk(lost, lost.person_token("keeper", "admin"))
    keeper.post("/storage/collect", {}, expect=202)
    assert until(lambda: ended(keeper, "collect"))["ok"]
    lost.clean_up()

    again = new_product(**where)
    done = again.manage("restore", str(tmp_path / "backup"))
    assert done.returncode == 0, done.stderr
    again.start()
    desk = Desk(again, agent)
    assert next(each["number"] for each in desk.get(f"/workspaces/{key}/snapshots").json["snapshots"]) == first
    assert desk.get(f"/workspaces/{key}/files/kept?snapshot={first}").body == b"kept\n"
    desk.post(f"/workspaces/{key}/resume", expect=202)
    assert desk.settled(key)["state"] == "ready"
    assert desk.get(f"/workspaces/{key}/files/a").body == b"one\n"
    desk.run(key, "echo three > a")
    third = desk.post(f"/workspaces/{key}/snapshots").json["number"]
    assert desk.get(f"/workspaces/{key}/files/a?snapshot={third}").body == b"three\n"
    keeper = Desk(again, again.person_token("keeper", "admin"))
    keeper.post("/storage/check", {"full": True}, expect=202)
    checked = until(lambda: ended(keeper, "check"))
    assert (checked["ok"], checked["outcome"].get("ok")) == (True, True), checked


def test_a_bucket_that_goes_away_is_named_and_comes_back(tmp_path, require, new_product):
    with seaweed(tmp_path / "seaweed", require) as own:
        product = new_product(HANDRAIL_BUCKET=bucket_of(own), **own.environ)
        product.start()
        desk = Desk(product, product.agent_token("left"))
        key = desk.create()["key"]
        desk.run(key, "echo one > a")
        number = desk.post(f"/workspaces/{key}/snapshots").json["number"]
        own.kill()
        ready = product.get("/readyz")
        assert ready.status == 503
        [found] = [part for part in ready.json["parts"] if part["part"] == "bucket"]
        assert (found["ok"], "does not answer" in found["words"]) == (False, True), found
        desk.run(key, "echo two > a")  # what runs goes on
        assert desk.get(f"/workspaces/{key}/files/a?snapshot={number}").body == b"one\n"  # from the copy here
        own.start()
        until(lambda: product.get("/readyz").status == 200, within=60)
        number = desk.post(f"/workspaces/{key}/snapshots").json["number"]
        assert desk.get(f"/workspaces/{key}/files/a?snapshot={number}").body == b"two\n"


def test_a_bucket_that_ignores_preconditions_stops_the_start(tmp_path, require, new_product):
    with s3rver(tmp_path / "s3rver", require) as careless:
        product = new_product(HANDRAIL_BUCKET=bucket_of(careless), **careless.environ)
        product.prepare()
        done = product.manage("up")
        assert done.returncode == 1
        assert "HANDRAIL_BUCKET cannot be used" in done.stdout + done.stderr
        assert "overwrote an object that was to be created only if absent" in done.stdout + done.stderr


def test_stores_of_folders_are_copied_into_a_bucket(s3, new_product):
    product = new_product()
    product.start()
    desk = Desk(product, product.agent_token("moving"))
    key = desk.create()["key"]
    desk.run(key, "echo one > a; head -c 2000000 /dev/urandom > noise")
    first = desk.post(f"/workspaces/{key}/snapshots").json["number"]
    noise = desk.get(f"/workspaces/{key}/files/noise").body
    product.stop()

    product.environment |= {"HANDRAIL_BUCKET": bucket_of(s3)} | s3.environ
    refused = product.manage("doctor").stdout
    assert "`manage.py stores_to_bucket` copies them" in refused
    done = product.manage("stores_to_bucket")
    assert (done.returncode, "bytes copied to s3://" in done.stdout) == (0, True), done.stderr
    again = product.manage("stores_to_bucket")
    assert (again.returncode, "is there already" in again.stdout) == (0, True)
    shutil.rmtree(product.home / "stores")
    product.start()
    assert desk.get(f"/workspaces/{key}/files/noise?snapshot={first}").body == noise
    desk.run(key, "echo two > a")
    second = desk.post(f"/workspaces/{key}/snapshots").json["number"]
    assert desk.get(f"/workspaces/{key}/files/a?snapshot={second}").body == b"two\n"
    assert desk.get(f"/workspaces/{key}/files/a?snapshot={first}").body == b"one\n"


def test_an_upload_that_one_web_took_is_unpacked_on_any_host(s3, bucket, kept, desk, tmp_path):
    (tmp_path / "a").write_text("uploaded\n")
    packed = subprocess.run(["tar", "-C", tmp_path, "-czf", "-", "a"], capture_output=True, check=True).stdout
    made = desk.call("POST", "/uploads", packed, 201).json["id"]
    assert not [path for path in (kept.home / "uploads").rglob("*") if path.is_file()]  # no other host would have it
    key = desk.create(source={"upload": made})["key"]
    assert desk.get(f"/workspaces/{key}/files/a").body == b"uploaded\n"
    prefix = bucket.removeprefix("s3://").partition("/")[2]
    assert [found.name.rpartition("/")[2] for found in s3.client(prefix).ls("files/uploads")] == [made]
    script = (
        "from datetime import timedelta; from dashboard.database import clock;"
        "from workspaces.services import retention;"
        "later = clock.frozen_at(clock.now() + timedelta(hours=3));"
        "later.__enter__(); retention.sweep_hours(); later.__exit__(None, None, None)"
    )
    kept.shell(script)
    assert s3.client(prefix).ls("files/uploads") == []
    desk.post("/workspaces", {"key": f"{key}-late", "source": {"upload": made}}, expect=422)

"""The store of a team is the one that its snapshots were kept in: a missing or foreign one is said, never replaced."""

import pytest

from workspaces.store import Store


@pytest.fixture
def store(desk, product):
    """Where the store of the team lies, with a snapshot in it; put back there at the end."""
    key = desk.create()["key"]
    desk.call("PUT", f"/workspaces/{key}/files/kept", b"kept\n", 201)
    number = desk.post(f"/workspaces/{key}/snapshots").json["number"]
    team = product.shell("from dashboard.models import Team; print(Team.objects.get(slug='main').pk)")
    path = product.home / "stores" / team
    aside = product.home / "unmounted"
    path.rename(aside)
    yield key, number, path, aside
    if aside.exists():
        aside.rename(path)
    assert desk.post(f"/workspaces/{key}/snapshots").json["number"] > number


def test_a_missing_store_is_named_and_not_replaced(desk, product, store):
    key, number, path, _ = store
    refused = desk.post(f"/workspaces/{key}/snapshots", expect=None)
    assert refused.status in (409, 503)
    assert "the snapshot store is missing" in refused.json["detail"]
    read = desk.get(f"/workspaces/{key}/files/kept?snapshot={number}", expect=503).json
    assert "the snapshot store is missing" in read["detail"]
    ready = product.get("/readyz")
    assert ready.status == 503
    assert "store: Team main: the snapshot store is missing" in ready.json["detail"]
    doctor = product.manage("doctor")
    assert doctor.returncode == 1
    assert "FAIL  store: Team main: the snapshot store is missing" in doctor.stdout
    backup = product.manage("backup", str(product.home.parent / "no-backup"))
    assert backup.returncode == 1
    assert not path.exists()


def test_a_foreign_store_is_named_and_left_alone(desk, product, store):
    key, _, path, _ = store
    Store.create(path)
    refused = desk.post(f"/workspaces/{key}/snapshots", expect=None)
    assert refused.status in (409, 503)
    assert "holds another snapshot store" in refused.json["detail"]
    assert list((path / "packs").iterdir()) == []
    assert "holds another snapshot store" in product.get("/readyz").json["detail"]
    path.rename(product.home / "foreign")


def test_a_new_one_is_taken_only_when_somebody_accepts_it(desk, product, store):
    key, number, path, aside = store
    accepted = product.manage("accept_store", "main")
    assert accepted.returncode == 0, accepted.stderr
    assert "snapshots are missing from it" in accepted.stdout
    assert product.get("/readyz").status == 200
    workspace = desk.get(f"/workspaces/{key}").json
    assert workspace["head_snapshot"] is None
    assert desk.post(f"/workspaces/{key}/snapshots").json["number"] > number
    assert desk.get(f"/workspaces/{key}/files/kept").body == b"kept\n"
    assert product.manage("accept_store", "main").returncode == 1
    # And back, for the tests that follow.
    path.rename(product.home / "accepted")
    aside.rename(path)
    assert product.manage("accept_store", "main").returncode == 0

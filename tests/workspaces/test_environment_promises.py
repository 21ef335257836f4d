"""What an environment promises in a workspace: ignored files stay over a rollback, an outdated setup is said."""

import os

from tests.support.desk import Desk


def test_a_rollback_leaves_what_the_environment_ignores(product, desk):
    name = f"ignoring-{os.urandom(4).hex()}"
    manager = Desk(product, product.person_token("manager-of-ignoring", "admin"))
    made = manager.post("/environments", {"name": name, "driver": "sandbox", "snapshot_ignore": "cache/\n"}).json
    assert made["snapshot_ignore"] == "cache/\n"
    key = desk.create(environment=name)["key"]
    desk.run(key, "mkdir cache; echo one > cache/big; echo one > a")
    taken = desk.post(f"/workspaces/{key}/snapshots", {"label": "before"}).json
    manifest = desk.get(f"/workspaces/{key}/snapshots/{taken['number']}/manifest").json
    assert manifest["ignored"] == {"patterns": ["cache/"], "count": 1}
    assert desk.get(f"/workspaces/{key}/files/cache/big?snapshot={taken['number']}", expect=None).status == 404
    desk.run(key, "echo two > cache/big; echo two > a")
    desk.post(f"/workspaces/{key}/snapshots/{taken['number']}/restore", expect=202)
    desk.settled(key)
    assert desk.run(key, "cat a cache/big") == b"one\ntwo\n"
    too_many = {"name": name, "snapshot_ignore": "a\n" * 201}
    assert manager.post("/environments", too_many, expect=422).json["detail"].startswith("At most 200 lines")


def test_the_manifest_names_the_lock_files_that_changed_since_setup(product, desk):
    name = f"locking-{os.urandom(4).hex()}"
    manager = Desk(product, product.person_token("manager-of-ignoring", "admin"))
    manager.post("/environments", {"name": name, "driver": "sandbox", "setup": "echo one > uv.lock"})
    key = desk.create(environment=name)["key"]
    desk.run(key, "echo two > uv.lock")
    taken = desk.post(f"/workspaces/{key}/snapshots", {}).json["number"]
    manifest = desk.get(f"/workspaces/{key}/snapshots/{taken}/manifest").json
    assert manifest["set_up_out_of_date"] == [{"path": "uv.lock", "change": "changed"}]
    words = "Set-up is out of date: uv.lock changed."
    assert desk.get(f"/workspaces/{key}/drift").json["drift"]["words"] == [words]

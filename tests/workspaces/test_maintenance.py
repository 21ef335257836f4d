"""The maintenance script of an environment runs at each resume, first, within a time, and its failure is said."""

import os

from tests.support.desk import Desk


def made_with(product, desk, script: str) -> str:
    name = f"kept-up-{os.urandom(4).hex()}"
    manager = Desk(product, product.person_token("manager-of-upkeep", "admin"))
    wish = {"name": name, "driver": "sandbox", "maintenance": script}
    assert manager.post("/environments", wish).json["maintenance"] == script
    return desk.create(environment=name)["key"]


def paused(desk, key):
    desk.post(f"/workspaces/{key}/pause", expect=202)
    assert desk.settled(key)["state"] == "paused"


def test_the_script_runs_at_each_resume_before_what_waits(product, desk):
    key = made_with(product, desk, "echo maintained | tee -a log; sleep 1; echo done >> log")
    assert b"maintained" not in desk.run(key, "cat log || true")
    for times in (1, 2):
        paused(desk, key)
        assert desk.run(key, "cat log") == b"maintained\ndone\n" * times
    commands = desk.get(f"/workspaces/{key}/commands").json["commands"]
    (ran, *_) = [command for command in commands if "maintained" in command["command"]]
    assert ran["exit_status"] == 0
    assert desk.get(f"/commands/{ran['id']}/output").body == b"maintained\n"
    assert desk.get(f"/workspaces/{key}").json["reason"] == ""


def test_a_failed_script_is_named_and_the_workspace_is_up(product, desk):
    key = made_with(product, desk, "echo broken pipe; exit 3")
    paused(desk, key)
    desk.post(f"/workspaces/{key}/resume", expect=202)
    workspace = desk.settled(key)
    assert workspace["state"] == "ready"
    assert workspace["reason"].startswith("The maintenance script failed (")
    assert desk.run(key, "echo works") == b"works\n"

"""kill -9 of the runner while it continues a guest from a checkpoint: it ends there, and what was before is kept."""

import pytest

from tests.faults.test_a_life_killed import Life, fire, noted, taken

STEPS = ("down.stopped", "checkpoint_files.saved", "checkpoint_files.placed", "up.started", "up.woken")
BOOT = "/proc/sys/kernel/random/boot_id"


@pytest.mark.timeout(600)  # an emulated guest boots once, slowly on a busy machine
def test_the_runner_killed_while_it_restores_a_checkpoint(desk, chance, seed, require):
    [found] = [d for d in desk.insist("GET", "/drivers", desk.agent).json["drivers"] if d["name"] == "microvm"]
    if not found["available"]:
        require("microvm", f"{found['reason']} {found['what_to_do']}")
    life = Life(desk, {"driver": "microvm"})
    life.create()
    assert life.settled()["state"] == "ready"
    life.run(f"echo kept > note; echo kept > ~/mine; cat {BOOT} > /tmp/boot")
    life.call("POST", "/pause")
    assert life.settled()["state"] == "paused"
    kept = life.call("POST", "/checkpoints", {"name": "kept"}).json["id"]
    for step in taken(chance, STEPS, 1):
        with noted(seed, f"restored, the runner killed at {step}", desk):
            life.run("echo later > note; echo later > ~/mine")  # wakes it
            killed_in_a_restore(life, kept, step)
    life.call("POST", "/stop")
    assert life.settled()["state"] == "stopped"


def killed_in_a_restore(life, kept: str, step: str):
    desk, asked = life.desk, []
    reached = fire(
        desk, step, lambda: asked.append(desk.insist("POST", f"/checkpoints/{kept}/restore", desk.agent).json["id"])
    )
    found = life.settled()
    reached()
    assert (found["state"], found["reason"], found["alarm"], found["proof"]["differ"]) == ("ready", "", {}, 0), found
    # The same boot of the same kernel, whose memory has what it had.
    life.run(f"test $(cat note) = kept && test $(cat ~/mine) = kept && cmp {BOOT} /tmp/boot")
    outcome = life.call("GET", f"/operations/{asked[0]}").json["outcome"]
    assert outcome["memory"] == "its programs went on"
    changes = life.call("GET", f"/diff?from={outcome['safety_snapshot']}&to=live").json["changes"]
    assert [(change["path"], change["kind"]) for change in changes] == [("note", "modified")]

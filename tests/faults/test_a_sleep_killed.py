"""The runner killed while a guest falls asleep and wakes: the command in it goes on, and is heard to its end."""

import pytest

from tests.faults.test_a_life_killed import Life, fire, taken

COUNTS = "n=0; while [ ! -e enough ]; do echo $n; n=$((n+1)); sleep 0.1; done; exit 7"
ASLEEP = [("pause", "sleep.snapshot"), ("pause", "sleep.kept"), ("pause", "down.stopped")]
AWAKE = [("resume", "resume.proved"), ("resume", "up.started"), ("resume", "up.woken")]


@pytest.mark.timeout(600)  # an emulated guest boots once, slowly on a busy machine
def test_a_command_goes_on_whenever_the_runner_is_killed(desk, chance, seed, require):
    [found] = [d for d in desk.insist("GET", "/drivers", desk.agent).json["drivers"] if d["name"] == "microvm"]
    if not found["available"]:
        require("microvm", f"{found['reason']} {found['what_to_do']}")
    life = Life(desk, {"driver": "microvm"})
    life.create()
    assert life.settled()["state"] == "ready"
    counts = life.call("POST", "/commands", {"command": COUNTS}).json["id"]
    asked = f"/commands/{counts}"
    # A command that has not begun when the guest is frozen is not started.
    desk.tells(lambda: len(desk.insist("GET", f"{asked}/output", desk.agent).body) > 0, within=60)
    for pause, wake in zip(taken(chance, ASLEEP, 1), taken(chance, AWAKE, 1), strict=True):
        for (verb, point), state in ((pause, "paused"), (wake, "ready")):
            said = desk.insist("GET", f"{asked}/output", desk.agent).body
            fire(desk, point, lambda verb=verb: life.call("POST", f"/{verb}"))()
            assert life.settled()["state"] == state, (seed, point)
        desk.tells(lambda said=said: len(desk.insist("GET", f"{asked}/output", desk.agent).body) > len(said), within=60)
    assert life.settled()["proof"]["differ"] == 0
    life.run("touch enough")
    desk.tells(lambda: desk.insist("GET", asked, desk.agent).json["ended_at"] is not None, within=60)
    assert desk.insist("GET", asked, desk.agent).json["exit_status"] == 7
    numbers = desk.insist("GET", f"{asked}/output", desk.agent).body.split()
    assert numbers == [b"%d" % n for n in range(len(numbers))]
    life.call("POST", "/stop")
    assert life.settled()["state"] == "stopped"

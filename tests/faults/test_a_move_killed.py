"""kill -9 of the runner at each arrow of a move between drivers: the files are whole, and at one place.

A move that was cut is finished by the next runner, or has not happened; what was up is up again.
"""

import base64

import pytest

from tests.faults.test_a_life_killed import Life, fire, noted, taken
from tests.faults.test_environments_killed import environment
from tests.support.odd_tree import ENTRIES, SCRIPT
from tests.workspaces.drivers.runs import IMAGES, why_not
from tests.workspaces.store.compare_trees import describe

POINTS = ("move.stopped", "move.kept", "move.sent", "arrive.restored", "arrive.proved", "arrive.switched")
POINTS += ("arrive.placed",)


@pytest.fixture
def drivers(desk) -> dict[str, str]:
    """{environment: driver} of two that a workspace can go between."""
    found = {environment(desk): "sandbox"}
    if why_not("docker", with_image=True):
        return found | {environment(desk): "sandbox"}
    wish = {"driver": "docker", "image": IMAGES["docker"], "minimum_isolation": "container"}
    return found | {environment(desk, **wish): "docker"}


def test_a_workspace_is_whole_at_one_place_wherever_its_move_is_cut(desk, drivers, chance, seed, one_round):
    names = list(drivers)
    life = Life(desk, {"environment": names[0]})
    life.make()
    script = base64.b64encode(SCRIPT.encode()).decode()
    life.run(f"echo {script} | base64 -d | python3 -; echo mine > ~/of-the-home")
    before = describe(life.tree, without={b".handrail"})
    assert len(before[0]) > ENTRIES
    for turn, point in enumerate(taken(chance, list(POINTS), 3), start=1):
        wanted = names[turn % 2]
        with noted(seed, f"move, the runner killed at {point}", desk):
            call, wish = f"/workspaces/{life.key}/move", {"environment": wanted}
            reached = fire(desk, point, lambda: desk.call("POST", call, desk.person, wish))  # noqa: B023
            found = life.settled()
            reached()
            assert (found["state"], found["environment"]) == ("ready", wanted), found
            assert (found["driver"], found["alarm"], found["proof"]["differ"]) == (drivers[wanted], {}, 0), found
            assert describe(life.tree, without={b".handrail"}) == before
            assert not (life.tree.parent / "arriving").exists()
            life.run("test mine = $(cat ~/of-the-home)")
    life.is_whole()
    desk.check(seed)

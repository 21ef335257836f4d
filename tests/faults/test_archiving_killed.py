"""kill -9 of the runner while it archives a workspace or brings it back: no file is lost, and it ends as asked."""

import pytest

from tests.faults.test_a_life_killed import Life, described, fire, noted, taken, wish  # noqa: F401 - a fixture

AWAY = ("archive.stopped", "archive.verified", "archive.marked", "archive.removing")
BACK = ("archive.back", "archive.returned")
STEPS = [*(("archive", point) for point in AWAY), *(("resume", point) for point in BACK)]


@pytest.fixture
def life(desk, wish):  # noqa: F811
    made = Life(desk, wish)
    made.make()
    return made


def test_the_runner_killed_while_files_leave_or_come_back(life, desk, chance, seed, one_round):
    before = described(life)
    for verb, point in taken(chance, STEPS):
        with noted(seed, f"{verb}, the runner killed at {point}", desk):
            if verb == "resume":
                life.call("POST", "/archive")
                assert life.settled()["state"] == "archived"
            call = f"/workspaces/{life.key}/{verb}"
            reached = fire(desk, point, lambda: desk.call("POST", call, desk.agent))  # noqa: B023
            found = life.settled()
            reached()
            if verb == "archive":
                assert (found["state"], found["reason"]) == ("archived", ""), found
                assert [entry.name for entry in life.tree.parent.iterdir()] == ["programs"]
                life.call("POST", "/resume")
                found = life.settled()
            assert (found["state"], found["alarm"], found["proof"]["differ"]) == ("ready", {}, 0), found
            assert described(life) == before
    life.is_whole()
    desk.check(seed)

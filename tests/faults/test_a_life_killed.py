"""kill -9 of the runner at each step of create, pause, stop, resume, restore and reset: nothing lost, nothing twice.

One round takes a few of the steps by chance; with HANDRAIL_TEST_ROUNDS above 1 each round takes all of them.
"""

import json
import uuid

from tests.faults.conftest import ROUNDS
from tests.store.compare_trees import describe
from workspaces.drivers.base import Owner, start_time

DOWN = ("down.stopped", "down.closed", "down.snapshot")
UP = ("resume.proved", "up.row", "up.started")
BACK = ("restore.frozen", "restore.saved", "restore.placed", "restore.back")
STEPS = [
    *(("create", point) for point in ("create.tree", "create.snapshot", "up.row", "up.started")),
    *((verb, point) for verb in ("pause", "stop") for point in DOWN),
    *(("resume", point) for point in UP),
    *((verb, point) for verb in ("restore", "reset") for point in BACK),
]
AT_ONCE = 3  # steps of a single round


class Life:
    """One workspace under fire: its tree, and what may be said of it after each fault."""

    def __init__(self, desk):
        self.desk, self.key = desk, f"life-{uuid.uuid4().hex[:8]}"

    def call(self, method, path="", body=None):
        answer = self.desk.insist(method, f"/workspaces/{self.key}{path}", self.desk.agent, body)
        assert answer.status in (200, 201, 202), answer.body
        return answer

    def settled(self) -> dict:
        while (found := self.call("GET", "?wait=5").json)["busy"]:
            pass
        return found

    def run(self, command: str) -> None:
        asked = self.call("POST", "/commands", {"command": command}).json["id"]
        while (done := self.desk.insist("GET", f"/commands/{asked}?wait=10", self.desk.agent).json)["ended_at"] is None:
            pass
        assert done["exit_status"] == 0, done

    def owners(self) -> list[Owner]:
        records = self.desk.product.home.glob("runs/*/owner.json")
        found = [Owner.from_json(path.read_text()) for path in records]
        return [owner for owner in found if owner.tree == str(self.tree)]

    @property
    def tree(self):
        """Known by its mark, which is there from the first command on."""
        if not hasattr(self, "_tree"):
            [found] = self.desk.product.home.glob(f"workspaces/*/tree/mark-{self.key}")
            self._tree = found.parent
        return self._tree

    def create(self):
        self.desk.insist("POST", "/workspaces", self.desk.agent, {"key": self.key})

    def make(self):
        self.create()
        assert self.settled()["state"] == "ready"
        self.fill()

    def fill(self):
        self.run(f"touch mark-{self.key}; mkdir -p d/e; echo one > d/e/one; ln -s one d/e/link; ln d/e/one hard")

    def is_whole(self):
        """Up, by one Run and no other; commands run; and it sleeps and wakes with nothing different."""
        assert self.settled()["state"] == "ready"
        self.run("echo on >> log")
        [owner] = self.owners()
        assert start_time(owner.pid) == owner.start_time
        self.call("POST", "/pause")
        assert self.settled()["state"] == "paused"
        assert self.owners() == []
        self.call("POST", "/resume")
        woken = self.settled()
        assert (woken["state"], woken["proof"]["differ"], woken["alarm"], woken["owed"]) == ("ready", 0, {}, "")


def fire(desk, point, call):
    desk.survives(point, call)
    return lambda: desk.tells(lambda: desk.has_fired(point) or f"{point} was never reached", within=60)


def test_killed_at_a_step_of_its_life(desk, chance, seed, one_round):
    steps = STEPS if ROUNDS > 1 else chance.sample(STEPS, AT_ONCE)
    life = Life(desk)
    life.make()
    for verb, point in steps:
        try:
            {"create": killed_in_create}.get(verb, killed_in_a_move)(life, verb, point)
        except AssertionError as error:
            error.add_note(f"seed {seed}: {verb} killed at {point}\n{desk.product.log[-3000:]}")
            raise
    desk.check(seed)


def killed_in_create(life, verb, point):
    made = Life(life.desk)
    reached = fire(made.desk, point, made.create)
    made.create()  # a client that insists
    found = made.settled()
    reached()
    if found["state"] == "failed":
        assert "Try again" in found["reason"]
        made.call("POST", "/retry")
        assert made.settled()["state"] == "ready"
    made.fill()
    made.is_whole()


def killed_in_a_move(life, verb, point):
    if verb == "resume":
        life.call("POST", "/pause")
        assert life.settled()["state"] == "paused"
    number = life.call("POST", "/snapshots").json["number"] if verb == "restore" else 1
    before = describe(life.tree)
    if verb in ("restore", "reset"):
        life.run("echo two > d/e/one; rm d/e/link; mkdir new; echo new > new/new")
    edited = describe(life.tree)
    path = f"/snapshots/{number}/restore" if verb == "restore" else f"/{verb}"
    reached = fire(life.desk, point, lambda: life.desk.call("POST", f"/workspaces/{life.key}{path}", life.desk.agent))
    found = life.settled()
    reached()
    state = {"pause": "paused", "stop": "stopped"}.get(verb, "ready")
    assert found["state"] == state, json.dumps(found)
    if verb == "restore":
        assert describe(life.tree) == before
    elif verb == "reset":
        # Back at the empty folder; and that is undone as it was.
        assert set(describe(life.tree)[0]) == {b""}
        safety = next(row for row in life.call("GET", "/snapshots").json["snapshots"] if row["kind"] == "safety")
        life.call("POST", f"/snapshots/{safety['number']}/restore")
        assert life.settled()["state"] == "ready"
        assert describe(life.tree) == edited
    else:
        assert describe(life.tree) == before
    if state != "ready":
        assert life.owners() == []
        life.call("POST", "/resume")
        assert life.settled()["alarm"] == {}
        assert describe(life.tree) == before
    life.is_whole()

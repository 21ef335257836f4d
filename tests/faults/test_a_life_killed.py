"""kill -9 at each step of create, pause, stop, resume, restore and reset: nothing lost, nothing twice.

What is killed is the runner, the workspace's first process, or the Docker engine. One round takes a few of the steps
by chance; with HANDRAIL_TEST_ROUNDS above 1 each round takes all of them.
"""

import json
import os
import signal
import uuid
from contextlib import contextmanager

import pytest

from tests.faults.armed_product import ArmedProduct
from tests.faults.conftest import ROUNDS
from tests.support.engine import Engine, lacks, make_busybox
from tests.workspaces.drivers.runs import IMAGES, why_not
from tests.workspaces.store.compare_trees import describe
from workspaces.drivers.base import RunRecord
from workspaces.drivers.processes import start_time

DOWN = ("down.stopped", "down.closed", "down.snapshot")
UP = ("resume.proved", "up.row", "up.started")
BACK = ("restore.frozen", "restore.saved", "restore.placed", "restore.back")
STEPS = [
    *(("create", point) for point in ("create.tree", "create.snapshot", "up.row", "up.started")),
    *((verb, point) for verb in ("pause", "stop") for point in DOWN),
    *(("resume", point) for point in UP),
    *((verb, point) for verb in ("restore", "reset") for point in BACK),
]
# Those at which the workspace has a first process; and one of each kind for its engine.
INHABITED = [("create", "up.started"), ("resume", "up.started"), *(("restore", point) for point in BACK)]
ENGINE_STEPS = [step for step in STEPS if step[0] not in ("stop", "reset")]
pytestmark = [] if ROUNDS == 1 else [pytest.mark.timeout(0)]  # a long run takes as long as it takes
AT_ONCE = 2  # steps of a single round
AT_REST = ("paused", "stopped", "failed")


@pytest.fixture(params=["sandbox", "docker"])
def wish(request, require) -> dict:
    """What a workspace of each driver is asked for with."""
    if request.param == "docker":
        if why := why_not("docker", with_image=True):
            require("docker", why)
        return {"driver": "docker", "image": IMAGES["docker"]}
    return {}


def taken(chance, steps, at_once=AT_ONCE) -> list:
    return steps if ROUNDS > 1 else chance.sample(steps, at_once)


class Life:
    """One workspace under fire: its tree, and what may be said of it after each fault."""

    def __init__(self, desk, wish):
        self.desk, self.wish, self.key = desk, wish, f"life-{uuid.uuid4().hex[:8]}"

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
        assert done["exit_status"] == 0, f"{command}: {done['reason'] or done}"

    def owners(self) -> list[RunRecord]:
        records = self.desk.product.home.glob("runs/*/record.json")
        found = [RunRecord.from_json(path.read_text()) for path in records]
        return [owner for owner in found if owner.tree == str(self.tree)]

    @property
    def tree(self):
        """Known by its mark, which is there from the first command on."""
        if not hasattr(self, "_tree"):
            [found] = self.desk.product.home.glob(f"workspaces/*/tree/mark-{self.key}")
            self._tree = found.parent
        return self._tree

    def create(self):
        self.desk.insist("POST", "/workspaces", self.desk.agent, {"key": self.key, **self.wish})

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
        # What a start has left that was interrupted is cleared within a minute.
        self.desk.tells(lambda: len(self.owners()) == 1, within=60)
        [owner] = self.owners()
        assert start_time(owner.pid) == owner.start_time
        self.call("POST", "/pause")
        assert self.settled()["state"] == "paused"
        assert self.owners() == []
        self.call("POST", "/resume")
        woken = self.settled()
        assert (woken["state"], woken["proof"]["differ"], woken["alarm"], woken["missing_snapshot"]) == (
            "ready",
            0,
            {},
            "",
        )


def newest_owner(desk) -> RunRecord:
    """Of the Run that was begun last."""
    records = desk.product.home.glob("runs/*/record.json")
    return RunRecord.from_json(max(records, key=lambda path: path.stat().st_mtime_ns).read_text())


def described(life):
    return describe(life.tree, without=(b".handrail",))  # a driver's, not one of the files


def fire(desk, point, call):
    desk.survives(point, call)
    return lambda: desk.tells(lambda: desk.has_fired(point) or f"{point} was never reached", within=60)


def test_the_runner_killed_at_a_step(desk, wish, chance, seed, one_round):
    life = Life(desk, wish)
    life.make()
    for verb, point in taken(chance, STEPS):
        with noted(seed, f"{verb}, the runner killed at {point}", desk):
            {"create": killed_in_create}.get(verb, killed_in_a_move)(life, verb, point)
    desk.check(seed)


def test_its_first_process_killed_at_a_step(desk, wish, chance, seed, one_round):
    life = Life(desk, wish)
    life.make()
    for verb, point in taken(chance, INHABITED, 1):
        with noted(seed, f"{verb}, its first process killed at {point}", desk):
            struck_in_a_move(life, verb, point, lambda: os.kill(newest_owner(desk).pid, signal.SIGKILL))
    desk.check(seed)


@pytest.fixture(scope="module")
def engine(require):
    """An engine of its own, to be killed."""
    if why := lacks():
        require("engine", why)
    running = Engine()
    try:
        running.start()
        yield running
    finally:
        running.clean_up()


@pytest.fixture(scope="module")
def held(engine, tmp_path_factory):
    """A desk whose workspaces live on that engine: (desk, what to ask for)."""
    folder = tmp_path_factory.mktemp("held")
    desk = ArmedProduct(folder / "home", folder, HANDRAIL_DOCKER_HOST=engine.address)
    try:
        yield desk, {"driver": "docker", "image": make_busybox(engine.address)}
    finally:
        desk.product.clean_up()


def test_the_engine_killed_at_a_step(held, engine, chance, seed, one_round):
    desk, wish = held
    life = Life(desk, wish)
    life.make()

    def strike():
        engine.stop(signal.SIGKILL)

    for verb, point in taken(chance, ENGINE_STEPS):
        with noted(seed, f"{verb}, the engine killed at {point}", desk):
            struck_in_a_move(life, verb, point, strike, engine.start)
    desk.check(seed)


def test_an_engine_that_is_away_is_reported_and_what_is_asked_for_meanwhile_is_done_after_it(held, engine):
    desk, wish = held
    stays, pauses, goes = (Life(desk, wish) for _ in range(3))
    for life in (stays, pauses, goes):
        life.make()
    engine.stop()
    desk.tells(lambda: seen(stays)["reason_code"] == "unreachable", within=20)
    lost = seen(stays)
    assert lost["state"] == "ready"
    assert lost["reason"].startswith("The Docker engine")
    assert "Its files are unchanged" in lost["reason"]
    [driver] = [part for part in desk.product.get("/readyz").json if part["part"] == "driver docker"]
    assert (driver["ok"], "workspaces are on it" in driver["words"]) == (False, True)
    pauses.call("POST", "/pause")
    path = f"/workspaces/{goes.key}"
    assert desk.insist("DELETE", path, desk.person).status == 202
    desk.tells(lambda: waits(pauses), within=20)
    assert (seen(pauses)["state"], seen(pauses)["busy"]) == ("ready", "pause")
    engine.start()
    desk.tells(lambda: seen(pauses)["state"] == "paused", within=60)
    desk.tells(lambda: seen(stays)["state"] == "stopped", within=60)
    ended = stays.settled()["reason"]
    assert ended.startswith("The Docker engine was stopped at ")
    assert ended.endswith(" and ended its containers.")
    desk.tells(lambda: desk.insist("GET", path, desk.agent).status in (404, 410), within=60)
    stays.call("POST", "/resume")
    stays.is_whole()


def test_a_pause_asked_of_a_killed_engine_ends_no_program_until_it_can_be_finished(held, engine):
    desk, wish = held
    life = Life(desk, wish)
    life.make()
    engine.stop(signal.SIGKILL)
    desk.tells(lambda: seen(life)["reason_code"] == "backend_lost", within=20)
    life.call("POST", "/pause")
    desk.tells(lambda: waits(life), within=20)
    life.run("echo goes on")
    engine.start()
    desk.tells(lambda: seen(life)["state"] == "paused", within=60)


def waits(life) -> bool:
    """Whether the last operation waits until an engine is back."""
    return "waits" in life.call("GET", "/operations").json["operations"][0]["progress"]


def seen(life) -> dict:
    """The workspace now, also while something waits."""
    return life.call("GET").json


@contextmanager
def noted(seed, words, desk):
    try:
        yield
    except AssertionError as error:
        error.add_note(f"seed {seed}: {words}\n{desk.product.log[-3000:]}")
        raise


def struck_in_a_move(life, verb, point, strike, afterwards=lambda: None):
    """The runner is held at the point, something else dies, and the runner goes on: what it says later is true."""
    if verb != "create" and life.settled()["state"] != "ready":
        life.call("POST", "/resume")  # what ended with the engine of the step before
        assert life.settled()["state"] == "ready"
    if verb == "create":
        life = Life(life.desk, life.wish)
        asked = life.create
    elif verb == "resume":
        life.call("POST", "/pause")
        assert life.settled()["state"] == "paused"
        asked = lambda: life.call("POST", "/resume")  # noqa: E731
    elif verb == "restore":
        number = life.call("POST", "/snapshots").json["number"]
        asked = lambda: life.call("POST", f"/snapshots/{number}/restore")  # noqa: E731
    else:
        asked = lambda: life.call("POST", f"/{verb}")  # noqa: E731
    before = edited = None if verb == "create" else described(life)
    if verb == "restore":
        life.run("echo two > d/e/one; rm d/e/link; mkdir new; echo new > new/new")
        edited = described(life)
    with life.desk.standing_at(point, asked):
        strike()
    # A pause waits for an engine that is away; everything else ends.
    life.desk.tells(lambda: not seen(life)["busy"] or waits(life), within=120)
    afterwards()
    # Whatever it was at that moment, it comes to rest, with a reason, and nothing of it is lost.
    life.desk.tells(lambda: (found := life.settled())["state"] in AT_REST or json.dumps(found), within=60)
    found = life.settled()
    assert found["reason"] or found["state"] == "paused", found
    if found["state"] == "failed":
        life.call("POST", "/retry")
    else:
        if before is not None:
            assert described(life) in (before, edited)
        life.call("POST", "/resume")
    woken = life.settled()
    assert (woken["state"], woken["alarm"]) == ("ready", {}), woken
    if verb == "create":
        life.fill()
    elif point in ("restore.placed", "restore.back"):
        assert described(life) == before
    else:
        assert described(life) in (before, edited)
    life.is_whole()


def killed_in_create(life, verb, point):
    made = Life(life.desk, life.wish)
    reached = fire(made.desk, point, made.create)
    made.create()  # a client that insists
    found = made.settled()
    reached()
    assert found["state"] == "ready", found["reason"]
    made.fill()
    made.is_whole()


def killed_in_a_move(life, verb, point):
    if verb == "resume":
        life.call("POST", "/pause")
        assert life.settled()["state"] == "paused"
    number = life.call("POST", "/snapshots").json["number"] if verb == "restore" else 1
    before = described(life)
    if verb in ("restore", "reset"):
        life.run("echo two > d/e/one; rm d/e/link; mkdir new; echo new > new/new")
    edited = described(life)
    path = f"/snapshots/{number}/restore" if verb == "restore" else f"/{verb}"
    reached = fire(life.desk, point, lambda: life.desk.call("POST", f"/workspaces/{life.key}{path}", life.desk.agent))
    found = life.settled()
    reached()
    state = {"pause": "paused", "stop": "stopped"}.get(verb, "ready")
    assert found["state"] == state, json.dumps(found)
    if verb == "restore":
        assert described(life) == before
    elif verb == "reset":
        # Back at the empty folder; and that is undone as it was.
        assert set(described(life)[0]) == {b""}
        safety = next(row for row in life.call("GET", "/snapshots").json["snapshots"] if row["kind"] == "safety")
        life.call("POST", f"/snapshots/{safety['number']}/restore")
        assert life.settled()["state"] == "ready"
        assert described(life) == edited
    else:
        assert described(life) == before
    if state != "ready":
        assert life.owners() == []
        life.call("POST", "/resume")
        assert life.settled()["alarm"] == {}
        assert described(life) == before
    life.is_whole()

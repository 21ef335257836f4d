"""Two installations on one host, as one user or two: what one stops, sweeps and ends is its own."""

import os

import pytest

from tests.support.desk import Desk
from tests.support.waiting import until
from tests.workspaces.drivers.runs import IMAGES, OPTIONS, why_not
from workspaces.drivers.base import RunRecord

WISHES = {"sandbox": {}, "docker": {"driver": "docker", "image": IMAGES["docker"]}, "microvm": {"driver": "microvm"}}


class Installation:
    """One product with the workspace `same-name`, in which a program runs on."""

    def __init__(self, product, driver: str):
        self.product, self.driver = product, driver
        if driver == "microvm":
            product.lend_images()
        product.start()
        self.desk = Desk(product, product.agent_token())
        self.desk.looks = 120  # an emulated guest without a template boots slowly on a busy machine

    def fill(self, mine: str):
        made = self.desk.create("same-name", **WISHES[self.driver])
        assert made["state"] == "ready", made["reason"]
        self.desk.run("same-name", f"echo {mine} > mine; sync")
        body = {"command": "sleep 600"}
        self.command = self.desk.post("/workspaces/same-name/commands", body).json["id"]
        # One that has not begun is begun by the copy of a home, after a resume.
        until(lambda: self.desk.get(f"/commands/{self.command}").json["started_at"])
        return self

    @property
    def runs(self) -> set[str]:
        """Ids of the Runs whose programs are up, by the records that its driver keeps."""
        records = [RunRecord.from_json(path.read_text()) for path in self.product.home.glob("runs/*/record.json")]
        return {owner.run_id for owner in records if owner.workspace_id}

    def uids(self) -> set[int]:
        """The uids that its workspaces' files and containers have on the host."""
        return {int(line) for line in self.product.shell(UIDS).split()}

    def goes_on(self) -> bytes:
        """What its workspace answers, whose program must still run."""
        assert self.desk.get(f"/commands/{self.command}").json["ended_at"] is None
        return self.desk.run("same-name", "cat mine")


UIDS = """
from workspaces.models import Workspace
print(*Workspace.objects.values_list("uid", flat=True))
"""


@pytest.fixture
def installation(new_product, require):
    """`installation("sandbox")`: one that is up."""

    def start(driver: str, *, user: int | None = None) -> Installation:
        if why := why_not(driver, True):
            require(driver, why)
        options = {"HANDRAIL_DOCKER_HOST": OPTIONS["docker"]["address"]} if driver == "docker" else {}
        product = new_product(**options)
        if user is not None:
            product.become(user)
        return Installation(product, driver)

    return start


def go_down_beside(first: Installation, second: Installation):
    """End the first with all that it has up, and start it again, which looks for leftovers: the second goes on."""
    before = second.runs
    assert len(before) == len(first.runs) == 1
    assert before.isdisjoint(first.runs)
    assert first.product.manage("down").returncode == 0
    first.product.stop()
    assert first.runs == set()
    assert (second.runs, second.goes_on()) == (before, b"second\n")
    first.product.start()
    first.desk.post("/workspaces/same-name/resume", expect=202)
    assert first.desk.settled("same-name")["state"] == "ready"
    assert first.desk.run("same-name", "cat mine") == b"first\n"
    assert (second.runs, second.goes_on()) == (before, b"second\n")


@pytest.mark.parametrize("driver", [*WISHES])
def test_one_installation_goes_down_and_the_other_goes_on(installation, driver):
    first, second = [installation(driver).fill(name) for name in ("first", "second")]
    assert not first.uids() & second.uids() or os.getuid() != 0
    go_down_beside(first, second)


@pytest.mark.parametrize("order", ["root first", "root last"])
def test_two_users_have_one_each(installation, ordinary_user, order):
    users = [None, ordinary_user] if order == "root first" else [ordinary_user, None]
    first, second = [
        installation("sandbox", user=user).fill(name) for user, name in zip(users, ("first", "second"), strict=True)
    ]
    go_down_beside(first, second)


@pytest.mark.parametrize("driver", ["sandbox", "docker"])
def test_a_copy_of_a_home_leaves_what_the_original_runs_alone(installation, new_product, driver):
    first = installation(driver).fill("first")
    before = first.runs
    options = {"HANDRAIL_DOCKER_HOST": OPTIONS["docker"]["address"]} if driver == "docker" else {}
    copy = new_product(**options)
    first.product.copy_home(copy.home)
    copy.fresh = True
    copy.start()
    beside = Desk(copy, first.desk.token)
    beside.looks = 120
    assert beside.settled("same-name")["state"] in ("paused", "stopped")  # it knows that nothing of it is up
    assert (first.runs, first.goes_on()) == (before, b"first\n")
    beside.post("/workspaces/same-name/resume", expect=202)
    assert beside.settled("same-name")["state"] == "ready"
    assert beside.run("same-name", "cat mine; echo copy > mine") == b"first\n"
    assert copy.manage("down").returncode == 0
    assert (first.runs, first.goes_on()) == (before, b"first\n")


def test_a_runtime_folder_of_another_one_is_refused(new_product):
    first = new_product()
    first.start()
    second = new_product(HANDRAIL_RUNTIME=str(first.runtime))
    done = second.manage("up")
    assert done.returncode == 1
    assert f"Another Handrail, on {first.home}, uses the runtime folder {first.runtime}." in done.stderr
    assert first.get("/readyz").status == 200

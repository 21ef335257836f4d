"""A program that starts others without end takes its own workspace's share of processes, and nobody else's."""

import time

import pytest

from tests.support.desk import Desk
from tests.support.product import Product

LIMIT = 2048  # of an environment that names none
# It bounds itself, so that on a build without a limit the machine that runs the tests goes on.
BOMB = """
import os, time
born = 0
try:
    while born < 2500:
        if os.fork() == 0:
            time.sleep(600)
            os._exit(0)
        born += 1
except OSError as error:
    print(born, error.strerror, flush=True)
else:
    print(born, "no limit", flush=True)
time.sleep({seconds})
"""


@pytest.fixture(scope="module")
def desk_of_a_user(tmp_path_factory, ordinary_user):
    """An agent of a product that runs as an ordinary user, who can write no control group."""
    product = Product(tmp_path_factory.mktemp("user") / "home")
    product.become(ordinary_user)
    product.start()
    yield Desk(product, product.agent_token("mallory"))
    product.clean_up()


def bomb(desk, key, seconds):
    argv = ["python3", "-c", BOMB.format(seconds=seconds)]
    started = desk.post(f"/workspaces/{key}/commands", {"argv": argv, "timeout_s": 300}).json["id"]
    deadline = time.monotonic() + 240
    while not (said := desk.get(f"/commands/{started}/output").body):
        assert desk.product.get("/healthz").status == 200
        assert time.monotonic() < deadline
    return started, said.decode()


def check_limit(said):
    born, _, reason = said.strip().partition(" ")
    assert reason == "Resource temporarily unavailable"
    assert LIMIT - 20 < int(born) < LIMIT


def test_it_stops_at_the_limit_and_a_cancel_ends_all_of_it(desk_of_a_user):
    desk = desk_of_a_user
    key, other = desk.create()["key"], desk.create()["key"]
    started, said = bomb(desk, key, seconds=600)
    check_limit(said)
    assert desk.run(other, "id -u | cat") == b"1000\n"
    assert [desk.product.get(path).status for path in ("/healthz", "/readyz")] == [200, 200]
    desk.post(f"/commands/{started}/cancel", expect=202)
    assert "cancelled" in desk.finished(started)["reason"]
    assert desk.run(key, "ps -e | grep -c python3; id -u | cat", expect_exit=0) == b"1\n1000\n"


def test_what_it_leaves_behind_can_be_ended_from_within(desk_of_a_user):
    desk = desk_of_a_user
    key = desk.create()["key"]
    started, said = bomb(desk, key, seconds=0)
    check_limit(said)
    assert desk.finished(started)["exit_status"] == 0
    refused = desk.run(key, "id -u; true", expect_exit=254)
    assert b"fork: Resource temporarily unavailable" in refused
    desk.run(key, "kill -KILL -1")  # by the shell itself, which does not need to fork for it
    assert desk.run(key, "id -u | cat") == b"1000\n"

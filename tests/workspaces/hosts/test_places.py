"""Two hosts over one PostgreSQL and one bucket: a workspace moves, a host is drained, lost, and comes back."""

import base64
import itertools
import os
import shutil
import signal

import pytest

from tests.support import postgres
from tests.support.desk import SUPERUSER, Desk
from tests.support.odd_tree import SCRIPT
from tests.support.product import Product, free_port
from tests.support.waiting import until
from tests.workspaces.store.compare_trees import describe

PREFIXES = itertools.count()


@pytest.fixture(scope="module")
def pair(tmp_path_factory, s3, require):
    """Two hosts that share a database, keys and a bucket."""
    if not postgres.programs():
        require("postgres", "there is no PostgreSQL on this host")
    folder, server, made = tmp_path_factory.mktemp("places"), postgres.Server(), []
    shared = {"DATABASE_URL": server.url, "HANDRAIL_BUCKET": s3.address(f"places-{next(PREFIXES)}"), **s3.environ}
    try:
        for name in ("host-a", "host-b"):
            address = f"127.0.0.1:{free_port()}"
            host = {"HANDRAIL_HOST_NAME": name, "HANDRAIL_RUNNER_ADDRESS": address}
            made.append(Product(folder / name, fresh=True, **host, **shared))
        first, second = made
        first.start()
        until(lambda: (first.home / "keys" / "vapid").exists())
        shutil.copytree(first.home / "keys", second.home / "keys")
        second.start()
        yield made
    finally:
        for product in reversed(made):
            product.clean_up()
        server.clean_up()


@pytest.fixture(scope="module")
def desk(pair):
    """The API of the first host's web, as a lead sees it."""
    return Desk(pair[0], pair[0].person_token("lia", "lead"))


@pytest.fixture(scope="module")
def admin(pair):
    """An admin who is a superuser too."""
    token = pair[0].person_token("ada", "admin")
    pair[0].shell(SUPERUSER.format(name="ada"))
    return Desk(pair[0], token)


def name_of(product) -> str:
    return product.environment["HANDRAIL_HOST_NAME"]


def tree_of(product, marker):
    [found] = product.home.glob(f"workspaces/*/tree/{marker}")
    return found.parent


def described(tree):
    return describe(tree, without={b".handrail"})


def filled(desk, pair, key):
    """Make a workspace with all kinds of files, which is up; return (its product, the other one)."""
    desk.create(key)
    script = base64.b64encode(SCRIPT.encode()).decode()
    desk.run(key, f"echo {script} | base64 -d | python3 -; touch mark-{key}; echo mine > ~/of-the-home")
    host = desk.get(f"/workspaces/{key}").json["place"]["host"]
    return sorted(pair, key=lambda product: name_of(product) != host)


def output_of(desk, command_id):
    return desk.get(f"/commands/{command_id}/output").text


def test_it_moves_between_hosts_with_its_files_its_home_and_its_output(pair, desk):
    own, other = filled(desk, pair, "mover")
    done = desk.finished(desk.post("/workspaces/mover/commands", {"command": "echo printed here"}).json["id"])
    before = described(tree_of(own, "mark-mover"))
    asked = desk.post("/workspaces/mover/move", {"host": name_of(other)}, 202).json
    assert (asked["busy"], asked["place"]["host"]) == ("move", name_of(own))
    found = desk.settled("mover")
    assert (found["state"], found["place"]["host"], found["proof"]["differ"]) == ("ready", name_of(other), 0), found
    assert described(tree_of(other, "mark-mover")) == before
    until(lambda: not list(own.home.glob("workspaces/*/tree/mark-mover")))
    desk.run("mover", "test mine = $(cat ~/of-the-home)")
    assert output_of(desk, done["id"]) == "printed here\n"
    said = own.manage("move", "mover", "--to", name_of(own))
    assert f"mover is on {name_of(own)} under default v1, 0 of" in said.stdout, said
    assert desk.settled("mover")["state"] == "ready"
    assert described(tree_of(own, "mark-mover")) == before
    desk.call("DELETE", "/workspaces/mover", None, 202)


def test_a_drained_host_is_left_and_gets_nothing_new(pair, desk, admin):
    own, other = filled(desk, pair, "leaver")
    told = admin.post(f"/hosts/{name_of(own)}/drain?now=true", expect=200).json["told"]
    assert [each["words"] for each in told if each["key"] == "leaver"] == [f"goes to {name_of(other)}"]
    until(lambda: desk.get("/workspaces/leaver").json["place"]["host"] == name_of(other), within=120)
    assert desk.settled("leaver")["state"] == "ready"
    assert desk.create("fresh")["place"]["host"] == name_of(other)
    assert admin.post(f"/hosts/{name_of(own)}/undrain", expect=200).json["state"] == "ready"


def test_from_a_lost_host_it_comes_back_and_what_came_after_is_kept_as_a_fork(pair, desk, admin):
    first, second = pair
    desk.create("victim")
    if desk.get("/workspaces/victim").json["place"]["host"] == name_of(first):
        desk.post("/workspaces/victim/move", {"host": name_of(second)}, 202)
        desk.settled("victim")
    desk.run("victim", "echo before > kept")
    number = desk.post("/workspaces/victim/snapshots", {}, None).json["number"]
    desk.run("victim", "echo after > late")
    parts = [second.part_pid(part) for part in ("web", "runner", "queue")]
    for pid in (second.process.pid, *parts):  # the host is cut off: its programs go on
        os.kill(pid, signal.SIGSTOP)
    refused = admin.post(f"/hosts/{name_of(second)}/lost", expect=None)
    assert refused.status == 409
    until(lambda: desk.get("/workspaces/victim").json["state"] == "unreachable", within=90)
    found = desk.get("/workspaces/victim").json
    assert (found["since"] is not None, found["place"]["host"]) == (True, name_of(second))
    assert admin.post(f"/hosts/{name_of(second)}/lost", expect=200).json["state"] == "lost"
    until(lambda: (now := desk.get("/workspaces/victim").json)["state"] == "ready" and not now["busy"], within=120)
    found = desk.get("/workspaces/victim").json
    assert (found["place"]["host"], found["owed"]["host"]) == (name_of(first), name_of(second))
    assert (found["owed"]["snapshot"], found["owed"]["found"]) == (number, False)
    desk.run("victim", "test before = $(cat kept) && test ! -e late")
    for pid in (*parts, second.process.pid):
        os.kill(pid, signal.SIGCONT)
    until(lambda: desk.get("/workspaces/victim").json["owed"]["found"], within=120)
    assert list(second.home.glob("quarantine/returned-*/tree/late"))
    assert not list(second.home.glob("workspaces/*/tree/late"))
    desk.post("/workspaces/victim/returned", {"key": "rescued"}, 202)
    until(lambda: desk.get("/workspaces/rescued", expect=None).status == 200, within=60)
    rescued = desk.settled("rescued")
    assert rescued["state"] == "ready", (rescued["reason"], rescued["place"], second.log[-3000:])
    desk.run("rescued", "test after = $(cat late)")
    assert desk.get("/workspaces/victim").json["owed"] is None
    assert desk.settled("victim")["state"] == "ready"

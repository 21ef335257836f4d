"""A tree under another environment: a fork or the workspace itself, whose files the other setup runs on."""

import os

import pytest

from tests.support.desk import Desk


@pytest.fixture(scope="module")
def manager(product):
    return Desk(product, product.person_token("manager-of-others", "admin"))


@pytest.fixture
def other(manager):
    """`other("script")`: the name of a sandbox environment with this setup."""

    def make(setup: str) -> str:
        name = f"other-{os.urandom(4).hex()}"
        manager.post("/environments", {"name": name, "driver": "sandbox", "setup": setup, "variables": {"OF": name}})
        return name

    return make


def labels(desk, key) -> list[tuple]:
    """(kind, label) of the snapshots, the oldest first."""
    found = desk.get(f"/workspaces/{key}/snapshots").json["snapshots"]
    return [(snapshot["kind"], snapshot["label"]) for snapshot in reversed(found)]


def asleep(desk) -> str:
    key = desk.create()["key"]
    desk.run(key, "echo work > file")
    desk.post(f"/workspaces/{key}/stop", expect=202)
    desk.settled(key)
    return key


def test_a_fork_has_the_files_and_the_setup_of_the_other_one_ran_on_them(desk, manager, other):
    key, name = desk.create()["key"], other("sed s/work/built/ file > made")
    desk.run(key, "echo work > file")
    fork = f"{key}-fork"
    desk.post(f"/workspaces/{key}/fork", {"key": fork, "environment": name})
    made = desk.settled(fork)
    assert (made["state"], made["environment"], made["reason"]) == ("ready", name, "")
    assert desk.run(fork, "cat file made; echo $OF") == f"work\nbuilt\n{name}\n".encode()
    assert labels(desk, key)[-1] == ("boundary", f"before a fork under {name}")
    assert labels(desk, fork) == [("fork", f"before the setup of {name}"), ("setup", "")]
    desk.run(fork, "rm file made")
    manager.post(f"/workspaces/{fork}/reset", expect=202)
    desk.settled(fork)
    assert desk.run(fork, "cat made") == b"built\n"
    again = f"{fork}-2"
    desk.post(f"/workspaces/{fork}/fork", {"key": again, "snapshot": 1})
    assert desk.settled(again)["state"] == "ready"
    assert desk.run(again, "ls") == b"file\n"  # the files of that snapshot: no setup runs for the same environment


def test_a_setup_that_fails_leaves_the_fork_failed_and_the_origin_as_it_was(desk, other):
    key, name = desk.create()["key"], other("echo no such tool; exit 7")
    desk.post(f"/workspaces/{key}/fork", {"key": f"{key}-fork", "environment": name})
    made = desk.settled(f"{key}-fork")
    assert (made["state"], "no such tool" in made["reason"]) == ("failed", True)
    assert desk.get(f"/workspaces/{key}").json["state"] == "ready"


def test_a_workspace_returns_under_another_one_and_that_can_be_undone(desk, manager, other):
    key, name = asleep(desk), other("sed s/work/built/ file > made")
    manager.post(f"/workspaces/{key}/return", {"choice": "environment", "environment": name}, expect=202)
    back = desk.settled(key)
    assert (back["state"], back["environment"], back["reason"]) == ("ready", name, "")
    assert desk.run(key, "cat file made; echo $OF") == f"work\nbuilt\n{name}\n".encode()
    assert labels(desk, key)[-2:] == [("boundary", f"before {name}"), ("setup", f"rebuilt with {name}, version 1")]
    desk.run(key, "rm made")
    manager.post(f"/workspaces/{key}/reset", expect=202)
    desk.settled(key)
    assert desk.run(key, "cat made") == b"built\n"
    manager.post(f"/workspaces/{key}/renew/undo", expect=202)
    undone = desk.settled(key)
    assert (undone["environment"], desk.run(key, "ls")) == ("default", b"file\n")


def test_a_setup_that_fails_leaves_files_and_environment(desk, manager, other):
    key, name = asleep(desk), other("echo broken > file; exit 7")
    manager.post(f"/workspaces/{key}/return", {"choice": "environment", "environment": name}, expect=202)
    left = desk.settled(key)
    assert (left["state"], left["environment"]) == ("stopped", "default")
    assert "The files are back as they were." in left["reason"]
    assert desk.get(f"/workspaces/{key}/files/file").body == b"work\n"

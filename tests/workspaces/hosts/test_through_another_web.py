"""A workspace of one host, used through the web of another: the same pages, the same bytes, the same refusals."""

import pytest


@pytest.fixture(scope="module")
def place(hosts):
    """The key of a workspace that host-a leads, with a file, a snapshot and an ended command."""
    workspace = hosts.on_a.create("far")
    hosts.on_a.call("PUT", "/workspaces/far/files/hello.txt", b"hello from a\n", None)
    hosts.on_a.run("far", "printf one; echo two")
    hosts.on_a.post("/workspaces/far/snapshots", {}, None)
    hosts.on_a.settled("far")
    return workspace["key"]


def test_files_are_read_and_written(hosts, place):
    assert hosts.on_b.get(f"/workspaces/{place}/files/hello.txt").body == b"hello from a\n"
    written = hosts.on_b.call("PUT", f"/workspaces/{place}/files/from-b.txt", b"from b", None)
    assert written.status in (200, 201)
    assert hosts.on_a.get(f"/workspaces/{place}/files/from-b.txt").body == b"from b"
    names = {entry["name"] for entry in hosts.on_b.get(f"/workspaces/{place}/files/").json["entries"]}
    assert {"hello.txt", "from-b.txt"} <= names


def test_a_command_is_started_and_its_output_followed(hosts, place):
    assert hosts.on_b.run(place, "for i in 1 2 3; do echo $i; sleep 0.2; done") == b"1\n2\n3\n"
    command = hosts.on_b.post(f"/workspaces/{place}/commands", {"command": "for i in 1 2 3; do echo $i; sleep 0.3; done"})
    followed = hosts.on_b.get(f"/commands/{command.json['id']}/output?follow=1").body
    assert followed == b"1\n2\n3\n"
    assert hosts.on_b.get(f"/commands/{command.json['id']}/output?offset=2").body == b"2\n3\n"

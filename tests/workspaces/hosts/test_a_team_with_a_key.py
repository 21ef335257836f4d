"""A team whose snapshots in the bucket are encrypted, on two hosts, and a rotation of the key ring that both share."""

import os
import signal

import pytest

from tests.support.two_hosts import two_hosts

CONTENTS = {name: os.urandom(300) for name in ("before", "first", "second")}  # which no compression changes
PREFIX = f"a-team-with-a-key-{os.getpid()}"


@pytest.fixture(scope="module")
def hosts(s3, tmp_path_factory):
    folder = tmp_path_factory.mktemp("key")
    with two_hosts(folder, HANDRAIL_BUCKET=s3.address(PREFIX), **s3.environ) as both:
        yield both


def in_bucket(s3) -> bytes:
    """Return the bytes of all objects of all stores."""
    client = s3.client(PREFIX)
    return b"".join(client.get(f"stores/{found.name}")[0] for found in client.ls("stores"))


def snapshot(desk, name: str) -> int:
    desk.call("PUT", f"/workspaces/far/files/{name}", CONTENTS[name], None)
    return desk.post("/workspaces/far/snapshots", {}, None).json["number"]


def read(desk, name: str, number: int) -> bytes:
    return desk.get(f"/workspaces/far/files/{name}?snapshot={number}").body


def ring(product) -> bytes:
    return (product.home / "keys" / "ring").read_bytes()


def test_snapshots_are_encrypted_and_read_through_both_webs_also_after_a_rotation(hosts, s3):
    plain = snapshot(hosts.through_own, "before")
    assert CONTENTS["before"] in in_bucket(s3)
    assert "are encrypted with the key" in hosts.other.manage("store_key", "main", "--new").stdout
    first = snapshot(hosts.through_own, "first")
    assert CONTENTS["first"] not in in_bucket(s3)

    before = ring(hosts.own)
    done = hosts.other.manage("rotate_secrets")
    assert (done.returncode, "Keys in the ring: 1." in done.stdout) == (0, True), done.stdout + done.stderr
    assert ring(hosts.own) == ring(hosts.other) != before

    second = snapshot(hosts.through_other, "second")
    for desk in (hosts.through_own, hosts.through_other):
        assert read(desk, "before", plain) == CONTENTS["before"]
        assert read(desk, "first", first) == CONTENTS["first"]
        assert read(desk, "second", second) == CONTENTS["second"]
    assert CONTENTS["second"] not in in_bucket(s3)


def test_a_host_that_is_away_is_named_and_nothing_changes(hosts):
    hosts.other.process.send_signal(signal.SIGTERM)
    hosts.other.process.wait(60)
    before = ring(hosts.own)
    away = hosts.other.environment["HANDRAIL_HOST_NAME"]
    refused = hosts.own.manage("rotate_secrets")
    assert refused.returncode == 1
    assert f"{away} cannot be given the new key: " in refused.stderr
    assert ring(hosts.own) == before

    assert hosts.own.manage("rotate_secrets", "--without", away).returncode == 0
    assert ring(hosts.own) != before == ring(hosts.other)
    (hosts.other.home / "keys" / "ring").write_bytes(ring(hosts.own))
    hosts.other.start()  # its keys are those that the rows of the other hosts note
    newest = max(each["number"] for each in hosts.through_own.get("/workspaces/far/snapshots").json["snapshots"])
    assert read(hosts.through_other, "second", newest) == CONTENTS["second"]

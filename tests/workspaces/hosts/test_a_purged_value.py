"""A value that lies on one host is found and purged by way of another one."""

import os

import pytest

from tests.support.desk import Desk
from tests.support.two_hosts import two_hosts
from tests.support.waiting import until

VALUE = "leaked-on-another-host-77c2"


@pytest.fixture(scope="module")
def hosts(s3, tmp_path_factory):
    folder = tmp_path_factory.mktemp("purged")
    prefix = f"a-purged-value-{os.getpid()}"
    with two_hosts(folder, HANDRAIL_BUCKET=s3.address(prefix), **s3.environ) as both:
        yield both


@pytest.fixture(scope="module")
def admin(hosts) -> Desk:
    return Desk(hosts.other, hosts.own.person_token("ada", "admin"))


def over(admin, started: dict) -> dict:
    return until(lambda: admin.get(f"/scrubs/{started['id']}").json["outcome"])


def recordings(product) -> bytes:
    """Return what all programs printed that a host has a folder of."""
    return b"".join(path.read_bytes() for path in product.home.glob("**/output*") if path.is_file())


def test_a_value_on_another_host_is_found_once_and_purged_there(hosts, admin):
    hosts.through_own.run("far", f"echo {VALUE} | tee config.env")
    assert VALUE.encode() in recordings(hosts.own)
    started = admin.post("/scrubs", {"value": VALUE}, 202).json
    found = over(admin, started)
    kinds = [place["what"] for place in found["places"]]
    assert kinds.count("output of a command") == kinds.count("live files") == 1
    assert not any("host-" in words for words in found["not_searched"])

    hosts.through_own.run("far", "rm config.env")
    asked = {"value": VALUE, "reason": "it leaked", "snapshots": [], "past_holds": False}
    purge = admin.post(f"/scrubs/{started['id']}/purge", asked, 202).json
    assert over(admin, purge)["ok"]
    assert VALUE.encode() not in recordings(hosts.own)
    left = over(admin, admin.post("/scrubs", {"value": VALUE}, 202).json)
    assert "output of a command" not in {place["what"] for place in left["places"]}


def test_a_host_that_does_not_answer_is_named(hosts, admin):
    hosts.own.stop()
    try:
        found = over(admin, admin.post("/scrubs", {"value": VALUE}, 202).json)
    finally:
        hosts.own.start()
    name = hosts.own.environment["HANDRAIL_HOST_NAME"]
    [words] = [words for words in found["not_searched"] if name in words]
    assert words.startswith(f"files of live workspaces on {name}, and what programs printed there: ")

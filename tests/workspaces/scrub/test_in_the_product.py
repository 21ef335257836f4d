"""A leaked value from end to end in a running product: searched, purged by page, with its receipt; and the command."""

import html
import json
import re

import pytest

from tests.support.desk import Desk
from tests.support.visitor import Visitor
from tests.support.waiting import until

TEAM = "scrubbed"  # of its own: a purge writes the store of its team anew
VALUE = "leaked-of-the-product-8d41"


@pytest.fixture(scope="module")
def desk(product) -> Desk:
    return Desk(product, product.agent_token("agent-of-scrubs", TEAM))


@pytest.fixture(scope="module")
def admin(product, desk) -> Desk:
    return Desk(product, product.person_token("admin-of-scrubs", "admin", TEAM))


def over(admin, scrub_id: str) -> dict:
    """The search or purge, once it has ended."""
    return until(lambda: admin.get(f"/scrubs/{scrub_id}").json["outcome"])


def search(admin) -> tuple[str, dict]:
    started = admin.post("/scrubs", {"value": VALUE}, 202).json
    return started["id"], over(admin, started["id"])


def kinds(outcome: dict) -> set[str]:
    return {place["what"] for place in outcome["places"]}


@pytest.fixture
def leaked(desk) -> str:
    """A workspace whose files, output, command and snapshot have the value; the key."""
    key = desk.create()["key"]
    desk.run(key, f"echo {VALUE} | tee config.env")
    desk.post(f"/workspaces/{key}/snapshots", {"label": "with it"}, None)
    desk.settled(key)
    return key


def test_a_leaked_value_is_found_everywhere_and_purged(desk, admin, product, leaked):
    scrub_id, found = search(admin)
    assert {"live files", "output of a command", "snapshot", "command"} <= kinds(found)
    [live] = [place for place in found["places"] if place["kind"] == "file"]
    assert (live["workspace"], live["paths"]) == (leaked, ["config.env"])
    # Out of the files, and a snapshot without it: then a purge may delete the ones before.
    desk.run(leaked, "rm config.env")
    desk.post(f"/workspaces/{leaked}/snapshots", {}, None)
    desk.settled(leaked)
    scrub_id, found = search(admin)
    assert VALUE not in json.dumps(found)
    person = Visitor(product, product.sign_in_url("admin-of-scrubs", "admin", TEAM))
    chosen = re.findall(r'name="snapshot"\s+value="([\w-]{36})"', person.get(f"/scrub/{scrub_id}/"))
    assert chosen == [place["pk"] for place in found["places"] if place["kind"] == "snapshot"]
    other = {"value": "another-value", "reason": "It leaked", "snapshot": chosen}
    refused = person.post(f"/scrub/{scrub_id}/purge/", other, at=f"/scrub/{scrub_id}/")
    assert "This isn't the value that was searched for." in html.unescape(refused)
    person.post(f"/scrub/{scrub_id}/purge/", other | {"value": VALUE, "reason": f"It leaked: {VALUE}"})
    purged = over(admin, person.path.strip("/").rpartition("/")[2])
    assert (purged["ok"], purged["store"]["contents_with_the_value_left"]) == (True, 0)
    page = person.get(person.path)
    receipt = person.get(re.search(r'href="(/scrub/receipts/[\w-]{36}/)"', page)[1])
    assert json.loads(receipt)["reason"] == "It leaked: [purged]"
    assert kinds(search(admin)[1]) <= {"event"}
    assert not any(VALUE in text for text in person.pages)


def test_the_command_prints_places_and_not_the_value(product, desk, leaked):
    done = product.manage("scrub", "--team", TEAM, input=VALUE + "\n")
    assert (done.returncode, VALUE in done.stdout + done.stderr) == (0, False)
    assert f"live files\t{leaked}: files in /workspace" in done.stdout
    assert "Not searched: backups" in done.stdout
